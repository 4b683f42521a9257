package naive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// SetnxExpire takes the lock with SETNX, gives it an expiry with a second command,
// PEXPIRE (EXPIRE counts whole seconds), and gives it back with DEL.
//
// A client that dies between the two commands leaves the lock taken for ever;
// otherwise it is [Naive] and has its faults. If the second command fails the lock
// is taken, but not by anyone who knows: the error is lock.ErrUnknown.
type SetnxExpire struct {
	node redis.UniversalClient
	env  lock.Env
}

// NewSetnxExpire builds it on one node.
func NewSetnxExpire(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &SetnxExpire{node, env}, nil
}

// Acquire implements [lock.Lock].
func (s *SetnxExpire) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	return lock.Retry(ctx, s.env, req, func(ctx context.Context) (lock.Lease, error) {
		if err := setnx(ctx, s.node, req.Key, value); err != nil {
			return nil, err
		}
		sent := time.Now()
		set, err := s.node.PExpire(ctx, req.Key, s.env.TTL).Result()
		if err == nil && !set {
			err = errors.New("the key was gone")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: SETNX took %s, then PEXPIRE failed: %w", lock.ErrUnknown, req.Key, err)
		}
		return &lease{node: s.node, key: req.Key, deadline: sent.Add(s.env.TTL)}, nil
	}, nil)
}

// Close implements [lock.Lock].
func (s *SetnxExpire) Close() error { return nil }
