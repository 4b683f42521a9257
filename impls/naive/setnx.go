package naive

import (
	"context"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// Setnx takes the lock with SETNX and gives it back with DEL. There is no expiry.
//
// It excludes others for as long as nobody dies: a holder that crashes, or whose
// release is lost, leaves it taken for ever, and so does an acquire whose answer is
// lost.
type Setnx struct {
	node redis.UniversalClient
	env  lock.Env
}

// NewSetnx builds it on one node.
func NewSetnx(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &Setnx{node, env}, nil
}

// Acquire implements [lock.Lock].
func (s *Setnx) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	return lock.Retry(ctx, s.env, req, func(ctx context.Context) (lock.Lease, error) {
		if err := setnx(ctx, s.node, req.Key, value); err != nil {
			return nil, err
		}
		return &lease{node: s.node, key: req.Key}, nil
	}, nil)
}

// Close implements [lock.Lock].
func (s *Setnx) Close() error { return nil }
