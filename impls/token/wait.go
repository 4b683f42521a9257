package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/impls/owned"
)

// Wait is [Token] that after SET NX also sends WAIT on the same connection, and
// gives the key back if fewer than Env.Replicas replicas have acknowledged it within
// a quarter of the TTL; the acquire is then refused. Extending waits likewise; if
// too few acknowledge, the outcome is unknown, for the primary did extend.
//
// It narrows the window in which a failover loses a granted lock, and does not close
// it: nothing makes the replica that acknowledged the one that is promoted, and a
// release that was not replicated comes back as a lock held by nobody, until its
// TTL.
type Wait struct {
	node     pooled
	env      lock.Env
	replicas int
}

// pooled is a client that lends out a connection of its own: WAIT speaks of the
// writes of the connection it is sent on.
type pooled interface {
	redis.UniversalClient
	Conn() *redis.Conn
}

// NewWait builds it on one node, which must not be a cluster client.
func NewWait(env lock.Env) (lock.Lock, error) {
	node, err := env.Single()
	if err != nil {
		return nil, err
	}
	if env.Replicas < 0 {
		return nil, fmt.Errorf("building a lock: Env.Replicas is %d", env.Replicas)
	}
	client, ok := node.(pooled)
	if !ok {
		return nil, fmt.Errorf("building a lock: WAIT needs a connection of its own, which a %T does not give: use a redis.Client", node)
	}
	return &Wait{client, env, max(env.Replicas, 1)}, nil
}

// Acquire implements [lock.Lock].
func (w *Wait) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	return lock.Retry(ctx, w.env, req, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		taken := false
		err := w.replicated(ctx, func(conn *redis.Conn) error {
			err := owned.Take(ctx, conn, req.Key, req.Owner, w.env.TTL)
			taken = err == nil
			return err
		})
		if !taken {
			return nil, err
		}
		l := &waitLease{lease{node: w.node, key: req.Key, owner: req.Owner, ttl: w.env.TTL, deadline: sent.Add(w.env.TTL)}, w}
		if err != nil {
			return nil, lock.TooLate(ctx, w.env, l, fmt.Errorf("taking %s: %w", req.Key, err))
		}
		return l, nil
	}, cleanUp(w.node, req))
}

// replicated writes on a connection of its own and waits until enough replicas have
// the write. The connection is back in the pool when it returns.
func (w *Wait) replicated(ctx context.Context, write func(*redis.Conn) error) error {
	conn := w.node.Conn()
	defer conn.Close()
	if err := write(conn); err != nil {
		return err
	}
	patience := max(w.env.TTL/4, time.Millisecond) // WAIT takes 0 for ever
	// go-redis grants WAIT ten seconds more than its argument.
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	n, err := conn.Wait(ctx, w.replicas, patience).Result()
	if err != nil {
		// Not wrapped: the write itself was answered, whatever became of WAIT.
		return fmt.Errorf("waiting for %d replicas: %v", w.replicas, err)
	}
	if n < int64(w.replicas) {
		return fmt.Errorf("%w: %d of %d replicas within %v", errTooFew, n, w.replicas, patience)
	}
	return nil
}

var errTooFew = errors.New("too few replicas acknowledged")

// Close implements [lock.Lock].
func (w *Wait) Close() error { return nil }

type waitLease struct {
	lease
	wait *Wait
}

func (l *waitLease) Extend(ctx context.Context) error {
	sent := time.Now()
	extended := false
	err := l.wait.replicated(ctx, func(conn *redis.Conn) error {
		err := owned.Extend(ctx, conn, l.key, l.owner, l.ttl)
		extended = err == nil
		return err
	})
	switch {
	case extended && err != nil:
		return fmt.Errorf("extending %s: %w: %w", l.key, lock.ErrUnknown, err)
	case err != nil:
		return err
	}
	l.lease.extended(sent.Add(l.ttl))
	return nil
}
