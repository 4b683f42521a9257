package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"lockstress/history"
	"lockstress/impls/lock"
	"lockstress/workload"
)

// client is one user of the lock.
type client struct {
	slot     int
	config   *Config
	rec      *history.Recorder
	lock     lock.Lock
	work     workload.Workload
	resource workload.Resource
	rand     *rand.Rand
	stops    func(Stop) error
	orders   chan message

	process int // its present number; see history.Header.Process
	unknown int // how many outcomes were unknown so far
	rounds  int64
	beat    heartbeat
	stepped bool
}

// heartbeat records what the lock does in the background for its client, under a
// process number of its own. It is called from the lock's goroutine.
type heartbeat struct {
	client *client
	mu     sync.Mutex
	hold   map[string]int64 // owner → hold
	beats  int              // unknown outcomes so far
}

// work obeys orders until the channel is closed.
func (c *client) obey(ctx context.Context) error {
	for m := range c.orders {
		if m.Order == nil {
			continue // told to go on, but it stands nowhere: it was freed before
		}
		c.stepped = m.Order.Stepped
		var last Stop
		grants := 0
		until := time.Now().Add(m.Order.For)
		for n := 0; ; n++ {
			var err error
			if last, err = c.round(ctx, *m.Order); err != nil {
				return err
			}
			if last.Acquire == Ended {
				grants++
			}
			if m.Order.over(n+1, until, last) {
				break
			}
		}
		last.Client, last.Point, last.Grants = c.slot, "", grants
		if err := c.stops(last); err != nil {
			return err
		}
	}
	return nil
}

// over says whether an order is done after n rounds, the last of which ended so.
func (o *Order) over(n int, until time.Time, last Stop) bool {
	switch {
	case o.Rounds > 0:
		return n >= o.Rounds
	case o.For > 0:
		return !time.Now().Before(until)
	}
	return last.Work != Ended
}

// round is one acquire, work, release. Its error is one of the harness; what goes
// wrong with the operations is recorded.
func (c *client) round(ctx context.Context, order Order) (Stop, error) {
	var stop Stop
	var seen *int64 // read beside the work
	if order.Partial == workload.LookFirst {
		var err error
		if seen, err = c.look(ctx, 0, &stop); err != nil || seen == nil {
			return stop, err
		}
	}
	began := time.Now()
	lease, err := c.acquire(ctx, order.Wait, &stop)
	stop.Took = time.Since(began)
	if err != nil || lease == nil {
		return stop, err
	}
	if err := c.at(workload.Acquired, stop.Hold); err != nil {
		return stop, err
	}
	switch {
	case order.Idle:
		err = c.leave(ctx, lease, &stop)
		return stop, err
	case order.Reenter > 0:
		err = c.nested(ctx, lease, order, &stop)
		return stop, err
	case order.Partial == workload.ReleaseFirst:
		if seen, err = c.look(ctx, lease.Fence(), &stop); err != nil {
			return stop, err
		}
		if err := c.leave(ctx, lease, &stop); err != nil || seen == nil {
			return stop, err
		}
		err = c.operate(ctx, lease, seen, order.Think, &stop)
		return stop, err
	}
	if err := c.operate(ctx, lease, seen, order.Think, &stop); err != nil {
		return stop, err
	}
	err = c.leave(ctx, lease, &stop)
	return stop, err
}

// nested acquires the lock once more under the lease, and works under both.
func (c *client) nested(ctx context.Context, lease lock.Lease, order Order, stop *Stop) error {
	var again Stop
	inner, err := c.acquire(ctx, order.Reenter, &again)
	if err != nil {
		return err
	}
	stop.Again = again.Acquire
	if err := c.at(workload.Reentered, again.Hold); err != nil {
		return err
	}
	if inner == nil {
		if err := c.operate(ctx, lease, nil, order.Think, stop); err != nil {
			return err
		}
		return c.leave(ctx, lease, stop)
	}
	if err := c.operate(ctx, inner, nil, order.Think, &again); err != nil {
		return err
	}
	stop.Work = again.Work
	if err := c.release(ctx, inner, &again); err != nil {
		return err
	}
	if err := c.at(workload.Left, again.Hold); err != nil {
		return err
	}
	return c.leave(ctx, lease, stop)
}

// leave gives the lock back.
func (c *client) leave(ctx context.Context, lease lock.Lease, stop *Stop) error {
	if err := c.at(workload.BeforeRelease, stop.Hold); err != nil {
		return err
	}
	if err := c.release(ctx, lease, stop); err != nil {
		return err
	}
	return c.at(workload.Released, stop.Hold)
}

// look reads the resource, as an operation of its own; nil if that failed.
func (c *client) look(ctx context.Context, fence int64, stop *Stop) (*int64, error) {
	e := history.Event{Op: history.Read, Key: c.config.ResourceKey}
	if err := c.invoke(&e); err != nil {
		return nil, err
	}
	seen, err := workload.Look(ctx, c.resource, fence)
	e = history.Event{Op: history.Read, Key: c.config.ResourceKey}
	if err != nil {
		typ, code := judge(err)
		stop.Work = code
		return nil, c.complete(&e, typ, err, code)
	}
	e.Value, e.Known = seen, true
	if err := c.complete(&e, history.OK, nil, ""); err != nil {
		return nil, err
	}
	return &seen, c.at(workload.ReadDone, stop.Hold)
}

// acquire asks for the lock until the wait is over. The lock itself retries when it
// is busy; here a client's patience with errors is played: each further try is an
// operation of its own. A nil lease without an error means that it was not granted.
func (c *client) acquire(ctx context.Context, wait time.Duration, stop *Stop) (lock.Lease, error) {
	until := time.Now().Add(wait)
	for {
		c.rounds++
		// Unique in the history: slots count modulo the number of clients.
		stop.Hold = int64(c.slot+1) + (c.rounds-1)*int64(c.config.Header.Clients)
		owner := fmt.Sprintf("%s-%d", c.config.Nonce, stop.Hold)
		c.beat.expect(owner, stop.Hold)
		e := history.Event{Op: history.Acquire, Key: c.config.Key, Hold: stop.Hold}
		if err := c.invoke(&e); err != nil {
			return nil, err
		}
		lease, err := c.lock.Acquire(ctx, lock.Request{Key: c.config.Key, Owner: owner, Wait: max(0, time.Until(until))})
		e = history.Event{Op: history.Acquire, Key: c.config.Key, Hold: stop.Hold}
		if err == nil {
			e.Fence = lease.Fence()
			e.Deadline = c.moment(lease.Deadline())
			stop.Acquire = Ended
			return lease, c.complete(&e, history.OK, nil, "")
		}
		c.beat.forget(owner)
		typ, code := judge(err)
		stop.Acquire = code
		if err := c.complete(&e, typ, err, code); err != nil {
			return nil, err
		}
		if code == history.Busy || !time.Now().Before(until) {
			return nil, nil
		}
		pause := time.Duration(c.rand.Int64N(int64(20*time.Millisecond))) + 5*time.Millisecond
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// operate does the workload's operation on the resource, if it has one. seenBefore is
// what was read of it before; nil: it is read now.
func (c *client) operate(ctx context.Context, lease lock.Lease, seenBefore *int64, think time.Duration, stop *Stop) error {
	if c.work.Op == "" {
		return nil
	}
	e := history.Event{Op: c.work.Op, Key: c.config.ResourceKey, Hold: stop.Hold, Fence: lease.Fence(), Value: c.work.Amount, Known: true}
	if err := c.invoke(&e); err != nil {
		return err
	}
	if think > 0 {
		think = time.Duration(c.rand.Int64N(int64(think))) + 1
	}
	var broken error // a sync point could not be reported: the harness is at fault
	seen, known, err := c.work.Do(ctx, c.resource, workload.Section{
		Fence: lease.Fence(), Lost: lease.Lost(), Think: think, Seen: seenBefore,
		At: func(point string) error { broken = c.at(point, stop.Hold); return broken },
	})
	if broken != nil {
		return broken
	}
	e = history.Event{Op: c.work.Op, Key: c.config.ResourceKey, Hold: stop.Hold, Fence: lease.Fence(), Value: seen, Known: known}
	if err == nil {
		stop.Work = Ended
		if err := c.complete(&e, history.OK, nil, ""); err != nil {
			return err
		}
		return c.at(workload.Wrote, stop.Hold)
	}
	typ, code := judge(err)
	stop.Work = code
	return c.complete(&e, typ, err, code)
}

func (c *client) release(ctx context.Context, lease lock.Lease, stop *Stop) error {
	e := history.Event{Op: history.Release, Key: c.config.Key, Hold: stop.Hold}
	if err := c.invoke(&e); err != nil {
		return err
	}
	err := lease.Release(ctx)
	c.beat.forget(fmt.Sprintf("%s-%d", c.config.Nonce, stop.Hold))
	e = history.Event{Op: history.Release, Key: c.config.Key, Hold: stop.Hold}
	if err == nil {
		stop.Release = Ended
		return c.complete(&e, history.OK, nil, "")
	}
	typ, code := judge(err)
	stop.Release = code
	return c.complete(&e, typ, err, code)
}

// judge decides what an error says about its operation: that it certainly did not
// happen, or nothing.
func judge(err error) (history.Type, string) {
	switch {
	case errors.Is(err, lock.ErrBusy):
		return history.Fail, history.Busy
	case errors.Is(err, lock.ErrNotHeld):
		return history.Fail, history.NotHeld
	case errors.Is(err, workload.ErrSoldOut):
		return history.Fail, history.SoldOut
	case errors.Is(err, workload.ErrStale):
		return history.Fail, history.Stale
	case errors.Is(err, workload.ErrGaveUp):
		return history.Fail, history.GaveUp
	case errors.Is(err, workload.ErrRead), errors.Is(err, lock.ErrRefused), errors.Is(err, lock.ErrUnsupported), lock.Certain(err):
		return history.Fail, history.Refused
	}
	return history.Info, history.Unknown
}

func (c *client) invoke(e *history.Event) error {
	e.Process, e.Type = c.process, history.Invoke
	_, err := c.rec.Record(e)
	return err
}

// complete records an operation's end. After an outcome that is unknown the client
// goes on as another process.
func (c *client) complete(e *history.Event, typ history.Type, cause error, code string) error {
	e.Process, e.Type = c.process, typ
	if cause != nil {
		e.Error = code + ": " + cause.Error()
	}
	_, err := c.rec.Record(e)
	if typ == history.Info {
		c.unknown++
		c.process = c.config.Header.Process(c.slot, history.ClientRole, c.unknown)
	}
	return err
}

// at reports a sync point and waits there, if the client is stepped.
func (c *client) at(point string, hold int64) error {
	if !c.stepped {
		return nil
	}
	e := history.Event{Process: c.process, Type: history.Note, Op: history.Sync, Hold: hold, Text: point}
	if _, err := c.rec.Record(&e); err != nil {
		return err
	}
	if err := c.stops(Stop{Client: c.slot, Point: point, Hold: hold}); err != nil {
		return err
	}
	m, ok := <-c.orders
	if !ok {
		return errors.New("the coordinator went away")
	}
	if m.Free {
		c.stepped = false
	}
	return nil
}

// moment puts a time of this process on the clock of the history; 0 for none.
func (c *client) moment(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return c.rec.Now() + int64(time.Until(t))
}

func (h *heartbeat) expect(owner string, hold int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold[owner] = hold
}

// forget is called when a hold is over, or was not granted.
func (h *heartbeat) forget(owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.hold, owner)
}

func (h *heartbeat) record(owner string, e history.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.client
	hold, ok := h.hold[owner]
	if !ok {
		return // of a hold that was given up long ago
	}
	e.Hold, e.Key = hold, c.config.Key
	e.Process = c.config.Header.Process(c.slot, history.HeartbeatRole, h.beats)
	c.rec.Record(&e) // a journal that fails also fails the client's next event
	if e.Type == history.Info {
		h.beats++
	}
}

// Extending implements [lock.Observer].
func (h *heartbeat) Extending(owner string) {
	h.record(owner, history.Event{Type: history.Invoke, Op: history.Extend})
}

// Extended implements [lock.Observer].
func (h *heartbeat) Extended(owner string, deadline time.Time, err error) {
	if err == nil {
		h.record(owner, history.Event{Type: history.OK, Op: history.Extend, Deadline: h.client.moment(deadline)})
		return
	}
	typ, code := judge(err)
	h.record(owner, history.Event{Type: typ, Op: history.Extend, Error: code + ": " + err.Error()})
}

// Lost implements [lock.Observer].
func (h *heartbeat) Lost(owner string) {
	h.record(owner, history.Event{Type: history.Note, Op: history.Lost})
}
