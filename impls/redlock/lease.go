package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockstress/impls/lock"
	"lockstress/impls/owned"
)

// lease of a majority. It is safe for concurrent use.
type lease struct {
	redlock *Redlock
	req     lock.Request

	mu       sync.Mutex
	deadline time.Time
}

func (l *lease) Fence() int64          { return 0 }
func (l *lease) Lost() <-chan struct{} { return nil }

func (l *lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Extend gives every key of ours a full TTL. nil: a majority did, in time. If so
// many nodes deny the key that ours is a minority, the lease is not held any more.
// Otherwise it depends on whether a majority may have done it; a majority that came
// too late counts as unknown.
func (l *lease) Extend(ctx context.Context) error {
	r := l.redlock
	deadline := r.deadline(time.Now())
	v := r.all(ctx, func(ctx context.Context, node owned.Node) error {
		return owned.Extend(ctx, node, l.req.Key, l.req.Owner, r.env.TTL)
	})
	outcome := lock.ErrRefused
	switch {
	case v.done >= r.quorum() && time.Now().Before(deadline):
		l.mu.Lock()
		defer l.mu.Unlock()
		if deadline.After(l.deadline) {
			l.deadline = deadline
		}
		return nil
	case v.denied >= r.blocking():
		outcome = lock.ErrNotHeld
	case v.done+v.silent >= r.quorum():
		outcome = lock.ErrUnknown
	}
	return fmt.Errorf("extending %s: %w (%v)", l.req.Key, outcome, v)
}

// Release deletes every key of ours. nil: a majority had it and deleted it, so it
// was ours until now. If so many nodes deny the key that ours was a minority, the
// lease was not held any more. If nobody did anything and all are certain of it, it
// is refused; any other mixture is unknown, though most often the lock is free.
func (l *lease) Release(ctx context.Context) error {
	r := l.redlock
	v := r.all(ctx, func(ctx context.Context, node owned.Node) error {
		return owned.Delete(ctx, node, l.req.Key, l.req.Owner)
	})
	outcome := lock.ErrUnknown
	switch {
	case v.done >= r.quorum():
		return nil
	case v.denied >= r.blocking():
		outcome = lock.ErrNotHeld
	case v.done+v.silent == 0:
		outcome = lock.ErrRefused
	}
	return fmt.Errorf("releasing %s: %w (%v)", l.req.Key, outcome, v)
}
