package token

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// Fenced is [Token] with a fencing token: the script that takes the free key also
// increments a counter beside it, which never expires. A resource that refuses
// tokens older than the newest it has seen is safe from late holders (Kleppmann,
// "How to do distributed locking").
//
// The tokens increase as long as the node keeps the counter: a failover or a restart
// that loses writes repeats them. The counter is [CounterKey] of the lock's key.
type Fenced struct {
	node redis.UniversalClient
	env  lock.Env
}

// takeFenced counts first: if the counter cannot be incremented (it is not a number,
// say) the script ends before anything is taken. A script is refused for want of
// memory before its first write or not at all.
var takeFenced = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence`)

// NewFenced builds it on one node.
func NewFenced(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &Fenced{node, env}, nil
}

// CounterKey is where the fencing tokens for the lock of key are counted, in the
// same cluster slot: key + ":fence", or {key}:fence for a key without a hash tag.
func CounterKey(key string) string {
	if _, after, found := strings.Cut(key, "{"); found && strings.IndexByte(after, '}') > 0 {
		return key + ":fence"
	}
	return "{" + key + "}:fence"
}

// Acquire implements [lock.Lock].
func (f *Fenced) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	keys := []string{req.Key, CounterKey(req.Key)}
	return lock.Retry(ctx, f.env, req, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		fence, err := takeFenced.Run(ctx, f.node, keys, req.Owner, f.env.TTL.Milliseconds()).Int64()
		switch {
		case err != nil:
			return nil, fmt.Errorf("taking %s and counting in %s: %w", keys[0], keys[1], err)
		case fence == 0:
			return nil, lock.ErrBusy
		}
		return &lease{
			node: f.node, key: req.Key, owner: req.Owner, ttl: f.env.TTL,
			fence: fence, deadline: sent.Add(f.env.TTL),
		}, nil
	}, cleanUp(f.node, req))
}

// Close implements [lock.Lock].
func (f *Fenced) Close() error { return nil }
