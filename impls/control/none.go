// Package control holds what is compared with locks: here, no lock at all.
package control

import (
	"context"
	"time"

	"lockstress/impls/lock"
)

// None always grants. It sends no command and guarantees nothing: it shows what a
// workload suffers without a lock, and that the harness sees it.
type None struct{}

// NewNone uses nothing of env.
func NewNone(lock.Env) (lock.Lock, error) { return None{}, nil }

// Acquire implements [lock.Lock].
func (None) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	if err := lock.Sendable(ctx); err != nil {
		return nil, err
	}
	return freedom{}, nil
}

// Close implements [lock.Lock].
func (None) Close() error { return nil }

type freedom struct{}

func (freedom) Fence() int64                  { return 0 }
func (freedom) Deadline() time.Time           { return time.Time{} }
func (freedom) Extend(context.Context) error  { return lock.ErrUnsupported }
func (freedom) Release(context.Context) error { return nil }
func (freedom) Lost() <-chan struct{}         { return nil }
