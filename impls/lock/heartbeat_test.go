package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstress/impls/lock"
)

// fake is a lease on a server that does as the test says.
type fake struct {
	mu       sync.Mutex
	deadline time.Time
	log      []string
	began    time.Time
	answer   func(ctx context.Context) error
}

func (f *fake) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf("%v %s", time.Since(f.began), s))
}

func (f *fake) Fence() int64          { return 7 }
func (f *fake) Lost() <-chan struct{} { return nil }
func (f *fake) Deadline() time.Time   { f.mu.Lock(); defer f.mu.Unlock(); return f.deadline }
func (f *fake) Extend(ctx context.Context) error {
	sent := time.Now()
	f.note("sent")
	if err := f.answer(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deadline = sent.Add(12 * time.Second)
	return nil
}
func (f *fake) Release(context.Context) error { f.note("released"); return nil }

func (f *fake) Extending(owner string) { f.note("extending " + owner) }
func (f *fake) Extended(owner string, deadline time.Time, err error) {
	if err != nil {
		f.note(fmt.Sprintf("extended %s: %v", owner, err))
		return
	}
	f.note(fmt.Sprintf("extended %s until %v", owner, deadline.Sub(f.began)))
}
func (f *fake) LostOf(owner string) { f.note("lost " + owner) }

// observer tells the lease's Lost from the observer's.
type observer struct{ *fake }

func (o observer) Lost(owner string) { o.LostOf(owner) }

func beat(answer func(context.Context) error) (*lock.Heartbeat, *fake) {
	f := &fake{deadline: time.Now().Add(12 * time.Second), began: time.Now(), answer: answer}
	return lock.Beat(f, "o", 12*time.Second, observer{f}), f
}

func wantLog(t *testing.T, f *fake, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.log, want) {
		t.Errorf("log %q\nwant %q", f.log, want)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestHeartbeatExtendsAndTellsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f := beat(func(context.Context) error { return nil })
		time.Sleep(9 * time.Second)
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantLog(t, f,
			"4s extending o", "4s sent", "4s extended o until 16s",
			"8s extending o", "8s sent", "8s extended o until 20s",
			"9s released")
		if isClosed(h.Lost()) {
			t.Error("lost after a release")
		}
	})
}

func TestHeartbeatToldNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f := beat(func(context.Context) error { return lock.ErrNotHeld })
		<-h.Lost()
		synctest.Wait()
		wantLog(t, f, "4s extending o", "4s sent", "4s extended o: "+lock.ErrNotHeld.Error(), "4s lost o")
	})
}

func TestHeartbeatTriesAgainAndLosesAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f := beat(func(context.Context) error { return io.EOF })
		<-h.Lost()
		if d := time.Since(f.began); d != 12*time.Second {
			t.Errorf("lost after %v, want at the deadline, 12 s", d)
		}
		sent := 0
		for _, l := range f.log {
			if _, what, _ := cut(l); what == "sent" {
				sent++
			}
		}
		if sent != 8 { // 4 s, 5 s … 11 s
			t.Errorf("%d extensions tried, want 8: %q", sent, f.log)
		}
	})
}

func cut(l string) (at, what string, ok bool) {
	for i := range l {
		if l[i] == ' ' {
			return l[:i], l[i+1:], true
		}
	}
	return l, "", false
}

func TestHeartbeatRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		h, f := beat(func(context.Context) error {
			if n++; n == 1 {
				return io.EOF
			}
			return nil
		})
		time.Sleep(5500 * time.Millisecond)
		if got := h.Deadline().Sub(f.began); got != 17*time.Second {
			t.Errorf("deadline %v, want 17 s: from the second try at 5 s", got)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestHeartbeatBoundsAnExtensionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f := beat(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		<-h.Lost()
		if d := time.Since(f.began); d != 12*time.Second {
			t.Errorf("lost after %v, want at the deadline although an extension was out", d)
		}
		synctest.Wait()
		cut := context.DeadlineExceeded.Error()
		wantLog(t, f,
			"4s extending o", "4s sent", "8s extended o: "+cut,
			"9s extending o", "9s sent", "12s extended o: "+cut, "12s lost o")
	})
}

func TestHeartbeatReleaseWaitsForTheExtensionInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		h, f := beat(func(context.Context) error { <-answer; return nil })
		time.Sleep(4500 * time.Millisecond)

		// A caller who does not want to wait is told so, and nothing is released.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Release(ctx); !errors.Is(err, lock.ErrRefused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("impatient release: %v", err)
		}
		released := make(chan error)
		go func() { released <- h.Release(t.Context()) }()
		synctest.Wait()
		close(answer)
		if err := <-released; err != nil {
			t.Error(err)
		}
		wantLog(t, f, "4s extending o", "4s sent", "5.5s extended o until 16s", "5.5s released")
	})
}

func TestHeartbeatTakesTheHoldersExtensionsIntoAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		h, f := beat(func(context.Context) error {
			if n++; n == 1 {
				return nil // the holder's
			}
			return io.EOF
		})
		time.Sleep(3 * time.Second)
		if err := h.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		if d := time.Since(f.began); d != 15*time.Second {
			t.Errorf("lost after %v, want 15 s: the holder extended at 3 s", d)
		}
		if h.Fence() != 7 {
			t.Errorf("fence %d", h.Fence())
		}
	})
}
