package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Heartbeat is a lease that a goroutine extends in the background every third of
// the TTL, and that finds out by itself when it is lost: when an extension is
// answered "not held", or when its deadline on the local monotonic clock passes
// without a successful extension. An extension that failed otherwise is tried again
// after a twelfth of the TTL. No extension takes longer than a third of the TTL,
// nor than the lease lasts (on connections that are [Env.Punctual]).
//
// A heartbeat goes with its process. While the process is stopped it neither
// extends nor notices; it does notice as soon as the process goes on.
type Heartbeat struct {
	lease    Lease
	owner    string
	every    time.Duration
	observer Observer // or nil

	extending sync.Mutex // one extension at a time
	stopOnce  sync.Once
	stop      chan struct{}
	stopped   chan struct{}
	lost      chan struct{}
}

// Beat starts the heartbeat of a lease just granted to owner. The lease must expire
// and be extendable; its Deadline and Extend are called from another goroutine.
func Beat(lease Lease, owner string, ttl time.Duration, observer Observer) *Heartbeat {
	h := &Heartbeat{
		lease: lease, owner: owner, every: ttl / 3, observer: observer,
		stop: make(chan struct{}), stopped: make(chan struct{}), lost: make(chan struct{}),
	}
	go h.run()
	return h
}

func (h *Heartbeat) run() {
	defer close(h.stopped)
	next := time.Now().Add(h.every)
	timer := time.NewTimer(h.every)
	defer timer.Stop()
	for {
		deadline := h.lease.Deadline()
		timer.Reset(min(time.Until(next), time.Until(deadline)))
		select {
		case <-h.stop:
			return
		case <-timer.C:
		}
		// The holder may have extended meanwhile.
		if deadline = h.lease.Deadline(); !time.Now().Before(deadline) {
			h.lose()
			return
		}
		sent := time.Now()
		if sent.Before(next) {
			continue
		}
		switch err := h.extend(deadline); {
		case err == nil:
			next = sent.Add(h.every)
		case errors.Is(err, ErrNotHeld):
			h.lose()
			return
		default:
			next = time.Now().Add(h.every / 4)
		}
	}
}

func (h *Heartbeat) extend(deadline time.Time) error {
	h.extending.Lock()
	defer h.extending.Unlock()
	if limit := time.Now().Add(h.every); limit.Before(deadline) {
		deadline = limit
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if h.observer != nil {
		h.observer.Extending(h.owner)
	}
	err := h.lease.Extend(ctx)
	if h.observer != nil {
		var until time.Time
		if err == nil {
			until = h.lease.Deadline()
		}
		h.observer.Extended(h.owner, until, err)
	}
	return err
}

func (h *Heartbeat) lose() {
	if h.observer != nil {
		h.observer.Lost(h.owner)
	}
	close(h.lost)
}

// Stop ends the heartbeat and waits for an extension in flight, so that none is
// sent after it has returned nil. If ctx ends first no further extension starts,
// but the one in flight is still out.
func (h *Heartbeat) Stop(ctx context.Context) error {
	h.stopOnce.Do(func() { close(h.stop) })
	select {
	case <-h.stopped:
		return nil
	default:
	}
	select {
	case <-h.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the heartbeat of %s: an extension is in flight: %w", h.owner, context.Cause(ctx))
	}
}

// Fence implements [Lease].
func (h *Heartbeat) Fence() int64 { return h.lease.Fence() }

// Deadline implements [Lease]; it moves with every extension.
func (h *Heartbeat) Deadline() time.Time { return h.lease.Deadline() }

// Lost implements [Lease]. It is not closed by a release, nor after a stop.
func (h *Heartbeat) Lost() <-chan struct{} { return h.lost }

// Extend implements [Lease], beside the extensions in the background.
func (h *Heartbeat) Extend(ctx context.Context) error {
	h.extending.Lock()
	defer h.extending.Unlock()
	return h.lease.Extend(ctx)
}

// Release stops the heartbeat, then releases. If ctx ends before the heartbeat has
// stopped, the release is not sent and the error is an [ErrRefused]: the lease then
// ends by itself.
func (h *Heartbeat) Release(ctx context.Context) error {
	if err := h.Stop(ctx); err != nil {
		return fmt.Errorf("%w: the release was not sent: %w", ErrRefused, err)
	}
	return h.lease.Release(ctx)
}
