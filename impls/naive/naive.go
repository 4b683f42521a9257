package naive

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// Naive takes the lock with SET NX PX (EX for whole seconds) and a constant value,
// and gives it back with DEL.
//
// It excludes others while everybody finishes within the TTL. A holder that is late
// deletes the lock of the next one, and is told nil: the answer to DEL cannot say
// whose key it was. Only if there is no key at all does it say lock.ErrNotHeld.
type Naive struct {
	node redis.UniversalClient
	env  lock.Env
}

// NewNaive builds it on one node.
func NewNaive(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &Naive{node, env}, nil
}

// Acquire implements [lock.Lock].
func (n *Naive) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	return lock.Retry(ctx, n.env, req, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		granted, err := n.node.SetNX(ctx, req.Key, value, n.env.TTL).Result()
		switch {
		case err != nil:
			return nil, err
		case !granted:
			return nil, lock.ErrBusy
		}
		return &lease{node: n.node, key: req.Key, deadline: sent.Add(n.env.TTL)}, nil
	}, nil)
}

// Close implements [lock.Lock].
func (n *Naive) Close() error { return nil }
