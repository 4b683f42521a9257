// Package token holds locks on one node whose key carries the token of its owner,
// so that nobody gives back or extends the lock of another.
package token

import (
	"context"
	"sync"
	"time"

	"lockstress/impls/lock"
	"lockstress/impls/owned"
)

// lease of a key owned. It is safe for concurrent use.
type lease struct {
	node       owned.Node
	key, owner string
	ttl        time.Duration
	fence      int64

	mu       sync.Mutex
	deadline time.Time
}

func (l *lease) Fence() int64          { return l.fence }
func (l *lease) Lost() <-chan struct{} { return nil }

func (l *lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *lease) Extend(ctx context.Context) error {
	sent := time.Now()
	if err := owned.Extend(ctx, l.node, l.key, l.owner, l.ttl); err != nil {
		return err
	}
	l.extended(sent.Add(l.ttl))
	return nil
}

// extended moves the deadline, never back: of two extensions under way at once
// either may have been executed last, and the key then outlasts both.
func (l *lease) extended(deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if deadline.After(l.deadline) {
		l.deadline = deadline
	}
}

func (l *lease) Release(ctx context.Context) error {
	return owned.Delete(ctx, l.node, l.key, l.owner)
}

// cleanUp returns the clean-up after an acquire of unknown outcome.
func cleanUp(node owned.Node, req lock.Request) func(context.Context) error {
	return func(ctx context.Context) error { return owned.CleanUp(ctx, node, req.Key, req.Owner) }
}
