package token

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// Reentrant can be acquired again by the client that holds it, that is, through the
// same Lock value; the lock is free when every hold has been released. The key is a
// hash:
//
//	owner   the token of the client's outermost hold
//	TOKEN   1, one such field per hold, named by its Request.Owner
//
// so the hold count is HLEN − 1, and a release sent twice counts once. Acquire,
// extend and release are one Lua script each. Every acquire and extend gives the
// whole lock a full TTL; a lease's own Deadline does not learn of the others'.
//
// It is a lease and no mutex, just as [Token]. If the lock expires, all holds are
// gone at once, and each learns so by itself.
type Reentrant struct {
	node redis.UniversalClient
	env  lock.Env
	// outer is the token under which this client last took a key. It is only a
	// proposal: the script compares it with what is stored. One entry per key.
	outer map[string]string
}

var (
	enter = redis.NewScript(`
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return 0 end
local first = 1
if owner then first = 2 else redis.call('HSET', KEYS[1], 'owner', ARGV[2]) end
redis.call('HSET', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return first`)
	prolong = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	leave = redis.NewScript(`
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HLEN', KEYS[1]) == 1 then redis.call('DEL', KEYS[1]) end
return 1`)
)

// NewReentrant builds it on one node.
func NewReentrant(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &Reentrant{node: node, env: env, outer: map[string]string{}}, nil
}

// Acquire implements [lock.Lock].
func (r *Reentrant) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	if req.Owner == "owner" {
		return nil, fmt.Errorf("acquiring %s: %w: %q cannot be a token", req.Key, lock.ErrRefused, req.Owner)
	}
	return lock.Retry(ctx, r.env, req, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		n, err := enter.Run(ctx, r.node, []string{req.Key}, r.outer[req.Key], req.Owner, r.env.TTL.Milliseconds()).Int64()
		switch {
		case err != nil:
			return nil, fmt.Errorf("entering %s: %w", req.Key, err)
		case n == 0:
			return nil, lock.ErrBusy
		case n == 1:
			r.outer[req.Key] = req.Owner
		}
		return &reentrantLease{lease{node: r.node, key: req.Key, owner: req.Owner, ttl: r.env.TTL, deadline: sent.Add(r.env.TTL)}}, nil
	}, func(ctx context.Context) error {
		_, err := leave.Run(ctx, r.node, []string{req.Key}, req.Owner).Int64()
		return err
	})
}

// Close implements [lock.Lock].
func (r *Reentrant) Close() error { return nil }

type reentrantLease struct{ lease }

func (l *reentrantLease) Extend(ctx context.Context) error {
	sent := time.Now()
	if err := l.run(ctx, "extending", prolong, l.owner, l.ttl.Milliseconds()); err != nil {
		return err
	}
	l.extended(sent.Add(l.ttl))
	return nil
}

func (l *reentrantLease) Release(ctx context.Context) error {
	return l.run(ctx, "releasing", leave, l.owner)
}

func (l *reentrantLease) run(ctx context.Context, doing string, script *redis.Script, args ...any) error {
	if err := lock.Sendable(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", doing, l.key, err)
	}
	n, err := script.Run(ctx, l.node, []string{l.key}, args...).Int64()
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", doing, l.key, lock.Settle(err))
	case n == 0:
		return fmt.Errorf("%s %s: %w", doing, l.key, lock.ErrNotHeld)
	}
	return nil
}
