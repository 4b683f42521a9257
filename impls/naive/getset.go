package naive

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// Getset stores in the key the moment its lease ends, in milliseconds of the
// client's wall clock. It takes a free lock with SETNX. If that is refused it reads
// the moment with GET, and once it is past takes the lock over with GETSET: whoever
// is answered with a moment that is past has won. It is given back with DEL.
// (The pattern was published with the SETNX command before SET knew NX and PX.)
//
// Of several clients that take over at once one wins, but the value stored is that
// of the last loser. A client whose clock runs ahead takes a lock that is held. As
// with [Naive], a late release deletes the lock of the next holder.
type Getset struct {
	node redis.UniversalClient
	env  lock.Env
}

// NewGetset builds it on one node.
func NewGetset(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	return &Getset{node, env}, nil
}

// Acquire implements [lock.Lock].
func (g *Getset) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	return lock.Retry(ctx, g.env, req, func(ctx context.Context) (lock.Lease, error) {
		began := time.Now()
		granted := &lease{node: g.node, key: req.Key, deadline: began.Add(g.env.TTL)}
		until := began.Add(g.env.TTL).UnixMilli()
		first := setnx(ctx, g.node, req.Key, until)
		if first != lock.ErrBusy {
			if first != nil {
				return nil, first
			}
			return granted, nil
		}
		old, err := g.node.Get(ctx, req.Key).Result()
		if past, perr := expired(old, err); perr != nil || !past {
			return nil, perr
		}
		until = time.Now().Add(g.env.TTL).UnixMilli()
		old, err = g.node.Do(ctx, "GETSET", req.Key, until).Text()
		if past, perr := expired(old, err); perr != nil || !past {
			return nil, perr
		}
		return granted, nil
	}, nil)
}

// expired tells whether the stored moment is past; no key counts as past. If it is
// not, the error is lock.ErrBusy.
func expired(stored string, err error) (bool, error) {
	// Compared by ==: a redis.Nil inside another error is not the answer to this command.
	if err == redis.Nil {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	until, err := strconv.ParseInt(stored, 10, 64)
	if err != nil {
		return false, fmt.Errorf("%w: the key holds %q, not a time in milliseconds: another kind of lock uses it", lock.ErrRefused, stored)
	}
	if time.Now().UnixMilli() <= until {
		return false, lock.ErrBusy
	}
	return true, nil
}

// Close implements [lock.Lock].
func (g *Getset) Close() error { return nil }
