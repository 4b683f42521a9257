// Package witness watches what a Redis server does to lock keys, past everything
// that the locks themselves report.
//
// One connection both subscribes to keyspace events and runs MONITOR. A server
// delivers the two in one order: the events of a command directly before its line,
// the line of a script before those of its commands. A line without an event is thus
// a command that changed nothing, an event "expired" without a line the server's own
// doing.
package witness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockstress/internal/clock"
)

// ErrEnded: the connection is gone and could not be made again, as when the server
// was killed. What it delivered before stands.
var ErrEnded = errors.New("the witness's connection has ended")

// Options of a witness.
type Options struct {
	// Owner maps an argument of a command, such as the value of a SET, to the
	// hold that it stands for; 0 for none. It is called from one goroutine.
	Owner func(value string) int64
	// Prefix begins the names of lock keys; default "{stress:".
	Prefix string
	// Key maps the name of a stored key to that of the lock, and says whether it
	// is a lock's key at all. Default: a name that ends in "{stress:…}" is the
	// lock of that name; so "{stress:1}" is one, "{stress:1}:fence" none.
	Key func(stored string) (lock string, ok bool)
	// Each is told of every effect, in order, from one goroutine; it must not
	// call the witness. Without it effects are collected: see [Witness.Seen].
	Each func(Seen)
}

// Witness watches one server.
type Witness struct {
	node, addr string
	o          Options
	side       *redis.Client // for everything that is not the stream
	tracker    *tracker
	before     map[string]string // settings as they were

	mu     sync.Mutex
	seen   []Seen
	marks  map[string]chan bool // of Syncs under way: true once the stream has come there
	stream *stream
	gaps   []Gap
	closed bool
}

// Gap is a span of time, on the clock of events, for which nobody watched.
type Gap struct{ From, To int64 }

// stream is one life of the connection, reconnections by itself included.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}
	// Valid once done is closed:
	err   error
	ended int64 // on the clock of events
}

// Watch connects to the server at addr (host:port), directly and past all proxies,
// and returns once it watches. Lock keys that are there already are reported as Set.
// It turns the server's keyspace events on, and back at [Witness.Close]. Needs Redis
// 6 or newer.
func Watch(ctx context.Context, addr, node string, o Options) (*Witness, error) {
	if o.Prefix == "" {
		o.Prefix = "{stress:"
	}
	if o.Owner == nil {
		o.Owner = func(string) int64 { return 0 }
	}
	if o.Key == nil {
		o.Key = func(stored string) (string, bool) { return lockKey(stored, o.Prefix) }
	}
	w := &Witness{node: node, addr: addr, o: o, marks: map[string]chan bool{}}
	w.side = redis.NewClient(&redis.Options{
		// A Sentinel closes this connection too. Every command here may be repeated.
		Addr: addr, MaxRetries: 2, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 5 * time.Millisecond,
		DialerRetries: 1, DialTimeout: 2 * time.Second,
		DisableIdentity: true, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	w.tracker = newTracker(node, o.Owner, o.Key, w.collect)
	if err := w.watch(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// lockKey accepts names that end in the prefix's hash tag.
func lockKey(stored, prefix string) (string, bool) {
	i := strings.Index(stored, prefix)
	if i < 0 || strings.IndexByte(stored[i:], '}') != len(stored)-i-1 {
		return "", false
	}
	return stored[i:], true
}

func (w *Witness) collect(s Seen) {
	if w.o.Each != nil {
		w.o.Each(s)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
}

// Seen returns the effects so far, in the order in which the server made them.
func (w *Witness) Seen() []Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[:len(w.seen):len(w.seen)]
}

// Gaps returns when nobody watched: a Sentinel closes all connections of a server
// that it promotes or demotes, this one too, and it is made again at once. Effects of
// a gap are known only by what they left behind.
func (w *Witness) Gaps() []Gap {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gaps[:len(w.gaps):len(w.gaps)]
}

// watch begins a stream and returns once it stands.
func (w *Witness) watch(ctx context.Context) error {
	c, err := w.connect(ctx)
	if err != nil {
		return fmt.Errorf("watching %s (%s): %w", w.node, w.addr, err)
	}
	life, cancel := context.WithCancel(context.Background())
	s := &stream{cancel: cancel, done: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		cancel()
		c.close()
		return fmt.Errorf("watching %s (%s): the witness is closed", w.node, w.addr)
	}
	w.stream = s
	w.mu.Unlock()
	ready := make(chan struct{})
	go w.run(life, c, s, sync.OnceFunc(func() { close(ready) }))
	select {
	case <-ready:
		return nil
	case <-s.done:
		return fmt.Errorf("watching %s (%s): %w", w.node, w.addr, s.err)
	case <-ctx.Done():
		cancel()
		<-s.done
		return fmt.Errorf("watching %s (%s): %w", w.node, w.addr, context.Cause(ctx))
	}
}

// run reads the stream, connecting again where the server still lives. It calls ready
// as soon as the tracker knows what there is.
func (w *Witness) run(ctx context.Context, c *source, s *stream, ready func()) {
	defer close(s.done)
	for {
		begun, err := w.read(ctx, c, ready)
		s.ended = clock.Now()
		w.tracker.lose()
		if ctx.Err() != nil {
			s.err = fmt.Errorf("%w: closed", ErrEnded)
			return
		}
		if !begun {
			s.err = fmt.Errorf("%w: %w", ErrEnded, err)
			return
		}
		again, cancel := context.WithTimeout(ctx, 2*time.Second)
		next, dialErr := w.connect(again)
		cancel()
		if dialErr != nil {
			s.err = fmt.Errorf("%w: %w; connecting again: %w", ErrEnded, err, dialErr)
			return
		}
		w.mu.Lock()
		w.gaps = append(w.gaps, Gap{s.ended, clock.Now()})
		w.mu.Unlock()
		c = next
	}
}

// Rewatch begins anew, after a restart of the server say. What the server lost
// meanwhile is reported as Removed (or Expired), what it has that was not known as
// Set.
func (w *Witness) Rewatch(ctx context.Context) error {
	w.mu.Lock()
	s := w.stream
	w.mu.Unlock()
	s.cancel()
	<-s.done
	if err := w.watch(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gaps = append(w.gaps, Gap{s.ended, clock.Now()})
	return nil
}

// Err returns why the witness does not watch any more, wrapping [ErrEnded]; nil while
// it does.
func (w *Witness) Err() error {
	s := w.current()
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Done is closed when the witness stops watching, because the server is gone or it
// was closed. [Witness.Rewatch] makes a new one.
func (w *Witness) Done() <-chan struct{} { return w.current().done }

func (w *Witness) current() *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream
}

// Sync returns once everything that the server executed before the call has been
// seen. If the server is gone the error wraps [ErrEnded]; all that it said has been
// seen then, too.
func (w *Witness) Sync(ctx context.Context) error {
	for {
		s := w.current()
		nonce, mark := nonce(), make(chan bool, 1)
		w.mu.Lock()
		w.marks[nonce] = mark
		w.mu.Unlock()
		err := w.side.Echo(ctx, nonce).Err()
		var again <-chan time.Time
		if err != nil { // and if the server is gone, the stream is about to end
			again = time.After(10 * time.Millisecond)
		}
		reached := false
		select {
		case reached = <-mark:
			err = nil
		case <-again:
			err = nil
		case <-s.done:
			err = s.err
		case <-ctx.Done():
			err = errors.Join(context.Cause(ctx), err)
		}
		w.mu.Lock()
		delete(w.marks, nonce)
		w.mu.Unlock()
		if err != nil {
			return fmt.Errorf("waiting for all that %s (%s) has executed: %w", w.node, w.addr, err)
		}
		if reached {
			return nil
		}
	}
}

func nonce() string { return "lockstress-" + rand.Text() }

// reach tells the Sync that waits for it that the stream has come to its mark.
func (w *Witness) reach(nonce string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mark := w.marks[nonce]; mark != nil {
		mark <- true
		delete(w.marks, nonce)
	}
}

// retryMarks makes Syncs mark the stream again: marks set before it began are lost.
func (w *Witness) retryMarks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, mark := range w.marks {
		mark <- false
	}
	clear(w.marks)
}

// Close ends the watching and puts the server's settings back. It is safe to call
// twice.
func (w *Witness) Close() error {
	w.mu.Lock()
	s, closed := w.stream, w.closed
	w.closed = true
	w.mu.Unlock()
	if closed {
		return nil
	}
	if s != nil {
		s.cancel()
		<-s.done
	}
	w.restore()
	return w.side.Close()
}
