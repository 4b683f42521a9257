package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Watched gives every lease of another lock a [Heartbeat].
type Watched struct {
	inner Lock
	env   Env

	mu     sync.Mutex
	closed bool
	beats  map[*Heartbeat]struct{}
}

// Watch wraps inner, whose leases must expire, be extendable and be safe for
// concurrent use. The connections must be [Env.Punctual].
func Watch(inner Lock, env Env) (*Watched, error) {
	if err := env.Punctual(); err != nil {
		return nil, err
	}
	return &Watched{inner: inner, env: env, beats: map[*Heartbeat]struct{}{}}, nil
}

// Acquire implements [Lock]. A grant whose time was up before its answer was read
// (the process had been stopped) is given back and refused.
func (w *Watched) Acquire(ctx context.Context, req Request) (Lease, error) {
	lease, err := w.inner.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	if late := time.Since(lease.Deadline()); late >= 0 {
		return nil, TooLate(ctx, w.env, lease, fmt.Errorf("acquiring %s: the answer was read %v after the lease had ended", req.Key, late))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, TooLate(ctx, w.env, lease, fmt.Errorf("acquiring %s: the lock is closed", req.Key))
	}
	beat := Beat(lease, req.Owner, w.env.TTL, w.env.Extended)
	w.beats[beat] = struct{}{}
	go func() {
		<-beat.stopped
		w.mu.Lock()
		delete(w.beats, beat)
		w.mu.Unlock()
	}()
	return beat, nil
}

// TooLate gives back a lease that must not be used and returns why, as an
// [ErrRefused] if it is certainly gone and as an [ErrUnknown] if it may not be.
func TooLate(ctx context.Context, env Env, lease Lease, why error) error {
	err := CleanUp(ctx, env, lease.Release)
	if err == nil || errors.Is(err, ErrNotHeld) {
		return fmt.Errorf("%w: %w", ErrRefused, why)
	}
	return fmt.Errorf("%w: %w; giving it back: %v", ErrUnknown, why, err)
}

// Close stops all heartbeats and waits for those in flight. The leases are not
// released: they end by themselves.
func (w *Watched) Close() error {
	w.mu.Lock()
	w.closed = true
	beats := make([]*Heartbeat, 0, len(w.beats))
	for beat := range w.beats {
		beats = append(beats, beat)
	}
	w.mu.Unlock()
	for _, beat := range beats {
		beat.Stop(context.Background()) // ends, since an extension does
	}
	return w.inner.Close()
}
