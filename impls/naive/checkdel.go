package naive

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/impls/owned"
)

// CheckDel takes the lock with SET NX PX (EX for whole seconds) and an owner token.
// It is given back with two commands, GET and, if the token is its own, DEL.
//
// A late holder learns that the lock is not its own any more. But the key can
// expire, and be taken by another, between the two commands: then the DEL removes
// the other's lock and the release is answered nil.
type CheckDel struct {
	node redis.UniversalClient
	env  lock.Env
}

// NewCheckDel builds it on one node.
func NewCheckDel(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &CheckDel{node, env}, nil
}

// Acquire implements [lock.Lock].
func (c *CheckDel) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	return lock.Retry(ctx, c.env, req, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		if err := owned.Take(ctx, c.node, req.Key, req.Owner, c.env.TTL); err != nil {
			return nil, err
		}
		l := &lease{node: c.node, key: req.Key, deadline: sent.Add(c.env.TTL)}
		l.release = func(ctx context.Context) error {
			owner, err := c.node.Get(ctx, req.Key).Result()
			// Compared by ==: a redis.Nil inside another error is no answer.
			if err == redis.Nil || err == nil && owner != req.Owner {
				return lock.ErrNotHeld
			}
			if err != nil {
				return err
			}
			return l.del(ctx)
		}
		return l, nil
	}, nil)
}

// Close implements [lock.Lock].
func (c *CheckDel) Close() error { return nil }
