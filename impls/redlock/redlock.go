// Package redlock holds the lock over N independent Redis nodes, a majority of which
// makes a grant (antirez, "Distributed locks with Redis").
package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstress/impls/lock"
	"lockstress/impls/owned"
)

// Redlock asks all nodes at once with SET NX PX (EX for whole seconds) and the owner
// token, each for at most [NodeTimeout]. It is granted if N/2+1 nodes took the key
// and time is left: the validity, TTL − elapsed − drift, counts on the local
// monotonic clock from before the first request, with a drift of TTL/100 + 2 ms for
// the nodes' clocks. After any failure the keys are deleted, if its own, on every
// node, also on those that did not answer, with the same bound and whatever becomes
// of the caller's context. Extending (check-and-PEXPIRE) needs a majority and
// recomputes the deadline; it does not take keys back that a node has lost.
//
// It is a lease that survives the loss of a minority of nodes. It is broken by a
// node that restarts without its data, or whose clock jumps, when another majority
// is formed with it while the lease lasts; and like every lease it is no mutex for
// holders that pause. There are no fencing tokens.
//
// Errors of Acquire: lock.ErrBusy if so many nodes said "taken" that no majority was
// left; lock.ErrRefused for other certain failures; lock.ErrUnknown if a majority
// may hold, now or when a delayed request arrives, keys of this request. Both of the
// former may leave a minority of such keys, which bars nobody.
type Redlock struct {
	nodes []owned.Node
	env   lock.Env
}

// New builds it on all of env.Nodes, which must heed context deadlines
// (lock.Env.Punctual) and be distinct: two connections of the same address, or whose
// servers report the same run id, are refused. A node that does not report one in
// time (half a second) is given the benefit of the doubt. An even number of nodes
// tolerates no more failures than the odd number below.
func New(env lock.Env) (lock.Lock, error) {
	if err := errors.Join(env.Check(), env.Punctual()); err != nil {
		return nil, err
	}
	if err := distinct(env.Nodes); err != nil {
		return nil, err
	}
	r := &Redlock{env: env}
	for _, node := range env.Nodes {
		r.nodes = append(r.nodes, node)
	}
	return r, nil
}

// NewWatchdog is [Redlock] with a heartbeat (see lock.Heartbeat), which extends the
// lease on a majority every third of the TTL and tells the holder of its loss.
func NewWatchdog(env lock.Env) (lock.Lock, error) {
	inner, err := New(env)
	if err != nil {
		return nil, err
	}
	return lock.Watch(inner, env)
}

// NodeTimeout bounds every request to a node: a twentieth of the TTL, at least 10 ms.
func NodeTimeout(ttl time.Duration) time.Duration { return max(ttl/20, 10*time.Millisecond) }

// drift allows for clocks that run at different rates and for Redis' rounding of
// expiry to milliseconds.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Acquire implements [lock.Lock].
func (r *Redlock) Acquire(ctx context.Context, req lock.Request) (lock.Lease, error) {
	// No clean-up by Retry: every failed attempt has done its own.
	return lock.Retry(ctx, r.env, req, func(ctx context.Context) (lock.Lease, error) {
		deadline := r.deadline(time.Now())
		taken := r.all(ctx, func(ctx context.Context, node owned.Node) error {
			return owned.Take(ctx, node, req.Key, req.Owner, r.env.TTL)
		})
		late := time.Since(deadline)
		if taken.done >= r.quorum() && late < 0 {
			return &lease{redlock: r, req: req, deadline: deadline}, nil
		}
		return nil, r.failed(ctx, req, taken, late)
	}, nil)
}

// failed frees what an attempt has taken, or may have, and says what is left of it.
func (r *Redlock) failed(ctx context.Context, req lock.Request, taken votes, late time.Duration) error {
	freed := r.all(context.WithoutCancel(ctx), func(ctx context.Context, node owned.Node) error {
		return owned.Delete(ctx, node, req.Key, req.Owner)
	})
	left := 0 // nodes that may hold a key of req, now or later
	for i := range r.nodes {
		t, f := taken.of[i], freed.of[i]
		switch {
		case t == denied || t == declined: // never had it
		case f == done: // had it
		case t == done && f == denied: // it has expired
		default: // not freed, or not taken yet
			left++
		}
	}
	outcome := lock.ErrRefused
	switch {
	case left >= r.quorum():
		outcome = lock.ErrUnknown
	case taken.denied >= r.blocking():
		outcome = lock.ErrBusy
	}
	if taken.done >= r.quorum() {
		return fmt.Errorf("%w: a majority came %v after the lease had ended (%v)", outcome, late, taken)
	}
	if outcome == lock.ErrBusy {
		return fmt.Errorf("%w (%v)", outcome, taken)
	}
	return fmt.Errorf("%w: no majority (%v)", outcome, taken)
}

func (r *Redlock) deadline(sent time.Time) time.Time {
	return sent.Add(r.env.TTL - drift(r.env.TTL))
}

// quorum is how many nodes make a majority, blocking how many make it impossible.
func (r *Redlock) quorum() int   { return len(r.nodes)/2 + 1 }
func (r *Redlock) blocking() int { return len(r.nodes) - r.quorum() + 1 }

// Close implements [lock.Lock].
func (r *Redlock) Close() error { return nil }
