package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"lockstress/impls/lock"
)

func env() lock.Env {
	return lock.Env{
		TTL: 10 * time.Second, RetryMin: 50 * time.Millisecond, RetryMax: 250 * time.Millisecond,
		Rand: rand.New(rand.NewPCG(3, 4)),
	}
}

func TestRetryPausesAtRandomWithinBoundsAndEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Minute
		began := time.Now()
		var at []time.Time
		_, err := lock.Retry(t.Context(), env(), lock.Request{Key: "{k}", Owner: "o", Wait: wait}, func(context.Context) (lock.Lease, error) {
			at = append(at, time.Now())
			return nil, lock.ErrBusy
		}, nil)
		if !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("error %v, want ErrBusy", err)
		}
		if at[0] != began {
			t.Errorf("first attempt after %v, want at once", at[0].Sub(began))
		}
		low, high := time.Hour, time.Duration(0)
		for i := range len(at) - 1 {
			pause := at[i+1].Sub(at[i])
			low, high = min(low, pause), max(high, pause)
		}
		// Over 300 draws from 50–250 ms: that all stay out of a tenth at either
		// end has a chance of 10⁻¹⁴, and the seed is fixed.
		if low < 50*time.Millisecond || low > 70*time.Millisecond || high > 250*time.Millisecond || high < 230*time.Millisecond {
			t.Errorf("%d pauses from %v to %v, want them to fill 50 to 250 ms", len(at)-1, low, high)
		}
		if end := at[len(at)-1].Sub(began); end > wait || end < wait-250*time.Millisecond {
			t.Errorf("last attempt after %v, want within the last pause before %v", end, wait)
		}
		if time.Since(began) > wait {
			t.Errorf("returned after %v, want no later than %v", time.Since(began), wait)
		}
	})
}

func TestRetryDecides(t *testing.T) {
	tests := []struct {
		name     string
		err      error
		attempts int // of at most 3 within the wait
		want     error
		cleaned  bool
	}{
		{"taken", lock.ErrBusy, 3, lock.ErrBusy, false},
		{"loading", reply("LOADING x"), 3, lock.ErrRefused, false},
		{"read-only script", reply("READONLY x. script: f2a, on @user_script:1."), 3, lock.ErrRefused, false},
		{"refused by the lock", lock.ErrRefused, 3, lock.ErrRefused, false},
		{"wrong type", reply("WRONGTYPE x"), 1, lock.ErrRefused, false},
		{"no permission", reply("NOPERM x"), 1, lock.ErrRefused, false},
		{"EOF", io.EOF, 1, lock.ErrUnknown, true},
		{"proxy", reply("ERR Connection timed out"), 1, lock.ErrUnknown, true},
		{"unknown by the lock", fmt.Errorf("%w: three of five", lock.ErrUnknown), 1, lock.ErrUnknown, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := env()
				e.RetryMin, e.RetryMax = time.Second, time.Second
				attempts, cleaned := 0, 0
				_, err := lock.Retry(t.Context(), e, lock.Request{Key: "{k}", Owner: "o", Wait: 2500 * time.Millisecond},
					func(context.Context) (lock.Lease, error) { attempts++; return nil, tt.err },
					func(ctx context.Context) error {
						cleaned++
						if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Second {
							t.Errorf("clean-up has until %v, want 1 s", d)
						}
						return lock.ErrNotHeld
					})
				if attempts != tt.attempts || (cleaned == 1) != tt.cleaned {
					t.Errorf("%d attempts and %d clean-ups, want %d and %v", attempts, cleaned, tt.attempts, tt.cleaned)
				}
				for _, sentinel := range []error{lock.ErrBusy, lock.ErrRefused, lock.ErrUnknown, lock.ErrNotHeld} {
					if got := errors.Is(err, sentinel); got != (sentinel == tt.want) {
						t.Errorf("errors.Is(%v, %v) = %v", err, sentinel, got)
					}
				}
				if !errors.Is(err, tt.err) {
					t.Errorf("%v does not wrap the attempt's error", err)
				}
			})
		})
	}
}

func TestRetryWaitZeroIsOneAttempt(t *testing.T) {
	n := 0
	_, err := lock.Retry(t.Context(), env(), lock.Request{Key: "{k}", Owner: "o"}, func(context.Context) (lock.Lease, error) {
		n++
		return nil, lock.ErrBusy
	}, nil)
	if n != 1 || !errors.Is(err, lock.ErrBusy) {
		t.Errorf("%d attempts, %v", n, err)
	}
}

func TestRetryContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		req := lock.Request{Key: "{k}", Owner: "o", Wait: time.Hour}
		n := 0
		// Cancelled while it pauses: what is known of the last attempt stays known.
		_, err := lock.Retry(ctx, env(), req, func(context.Context) (lock.Lease, error) {
			n++
			time.AfterFunc(time.Millisecond, cancel)
			return nil, lock.ErrBusy
		}, nil)
		if n != 1 || !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.Canceled) {
			t.Errorf("%d attempts, %v", n, err)
		}
		// Over before it began: nothing is sent.
		_, err = lock.Retry(ctx, env(), req, func(context.Context) (lock.Lease, error) { n++; return nil, nil }, nil)
		if n != 1 || !errors.Is(err, lock.ErrRefused) || !errors.Is(err, context.Canceled) {
			t.Errorf("%d attempts, %v", n, err)
		}
	})
}

func TestCleanUpOutlivesTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := lock.CleanUp(ctx, env(), func(ctx context.Context) error { return ctx.Err() })
	if err != nil {
		t.Errorf("clean-up under a cancelled caller: %v", err)
	}
}
