package lock

import (
	"context"
	"errors"
	"sync/atomic"
)

// Counts are the two figures that operators of a lock watch, and what they are a
// part of. Extensions are not counted.
type Counts struct {
	Acquires int64 // calls of Acquire
	Failed   int64 // of these, not granted for whatever reason
	Releases int64 // calls of Release
	NotHeld  int64 // of these, answered "not yours any more": work outlasted the lease
}

// Counted is a lock that counts. Counts may be read while the lock is in use.
type Counted struct {
	Lock
	acquires, failed, releases, notHeld atomic.Int64
}

// Count wraps l.
func Count(l Lock) *Counted { return &Counted{Lock: l} }

// Counts so far.
func (c *Counted) Counts() Counts {
	return Counts{c.acquires.Load(), c.failed.Load(), c.releases.Load(), c.notHeld.Load()}
}

// Acquire implements [Lock].
func (c *Counted) Acquire(ctx context.Context, req Request) (Lease, error) {
	c.acquires.Add(1)
	lease, err := c.Lock.Acquire(ctx, req)
	if err != nil {
		c.failed.Add(1)
		return nil, err
	}
	return &countedLease{lease, c}, nil
}

type countedLease struct {
	Lease
	counted *Counted
}

func (l *countedLease) Release(ctx context.Context) error {
	l.counted.releases.Add(1)
	err := l.Lease.Release(ctx)
	if errors.Is(err, ErrNotHeld) {
		l.counted.notHeld.Add(1)
	}
	return err
}
