package token

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/impls/owned"
)

// Token is the lock that the Redis documentation gives for a single instance: SET
// NX PX (EX for whole seconds) with a token unique to the request, and a Lua script
// that deletes the key if it still holds the token. Extending is a script of the
// same kind with PEXPIRE.
//
// It is a correct lease on a node that neither fails over, evicts, loses its data
// nor has its clock set: granted only when free, given back only by its owner. It
// is not a mutex: a holder that pauses or works longer than the TTL goes on beside
// the next one. It does not look at how long its answer took, so a client that
// pauses with the answer in its socket believes in a lease that is over; the lease's
// Deadline would tell.
//
// An acquire of unknown outcome is followed by a delete-if-mine.
type Token struct {
	node redis.UniversalClient
	env  lock.Env
}

// NewToken builds it on one node.
func NewToken(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &Token{node, env}, nil
}

// Acquire implements [lock.Lock].
func (t *Token) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	return lock.Retry(ctx, t.env, req, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		if err := owned.Take(ctx, t.node, req.Key, req.Owner, t.env.TTL); err != nil {
			return nil, err
		}
		return &lease{node: t.node, key: req.Key, owner: req.Owner, ttl: t.env.TTL, deadline: sent.Add(t.env.TTL)}, nil
	}, cleanUp(t.node, req))
}

// Close implements [lock.Lock].
func (t *Token) Close() error { return nil }
