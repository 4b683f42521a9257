package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Attempt asks for the lock once. Its error is [ErrBusy], one that [Certain] can
// judge, or one of this package.
type Attempt func(ctx context.Context) (Lease, error)

// Retry makes attempts until one is granted, with a random pause between RetryMin
// and RetryMax after each. It makes at least one, unless ctx is over before it, and
// starts none later than req.Wait after the call; when the next pause would end too
// late it gives up at once rather than sleep in vain. The error is that of the last
// attempt, as [Settle] has it.
//
// Only failures that certainly granted nothing are retried, and of these only
// passing ones: the lock is taken, a majority was missed, nobody could be reached,
// the server is loading, read-only, … An attempt whose outcome is unknown ends it
// at once with [ErrUnknown]: its own key may be sitting there, so that a further
// attempt would be told "taken" by itself, and if it succeeded the caller would
// still have held the lock twice. Whoever wants the lock all the same asks again
// with a new owner. Before it returns, cleanUp (if not nil) is called once to
// remove what the attempt may have left, under a context of its own of at most
// [CleanUpTime]. It is a courtesy to others and changes nothing for this caller: a
// delayed request may still arrive after it, and then lasts until its TTL.
func Retry(ctx context.Context, env Env, req Request, attempt Attempt, cleanUp func(context.Context) error) (Lease, error) {
	last := time.Now().Add(req.Wait)
	if req.Key == "" || req.Owner == "" {
		return nil, fmt.Errorf("%w: a request needs a key and an owner, got key %q and owner %q", ErrRefused, req.Key, req.Owner)
	}
	if err := Sendable(ctx); err != nil {
		return nil, fmt.Errorf("acquiring %s: %w", req.Key, err)
	}
	for n := 1; ; n++ {
		lease, err := attempt(ctx)
		if err == nil {
			return lease, nil
		}
		again := errors.Is(err, ErrBusy) || errors.Is(err, ErrRefused) || transient(err)
		err = fmt.Errorf("acquiring %s, attempt %d: %w", req.Key, n, Settle(err))
		if errors.Is(err, ErrUnknown) {
			if cleanUp != nil {
				if cerr := CleanUp(ctx, env, cleanUp); cerr != nil {
					// Not wrapped: what the clean-up met says nothing of the acquire.
					err = fmt.Errorf("%w (cleaning up: %v)", err, cerr)
				}
			}
			return nil, err
		}
		pause := env.RetryMin
		if span := env.RetryMax - env.RetryMin; span > 0 {
			pause += time.Duration(env.Rand.Int64N(int64(span) + 1))
		}
		if !again || time.Until(last) < pause {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w; not tried again: %w", err, context.Cause(ctx))
		}
		if time.Now().After(last) {
			return nil, err
		}
	}
}

// CleanUpTime bounds a clean-up after a failed attempt: a tenth of the TTL, at least
// 200 ms and at most 1 s.
func (e Env) CleanUpTime() time.Duration {
	return min(max(e.TTL/10, 200*time.Millisecond), time.Second)
}

// CleanUp calls f with a context of at most [Env.CleanUpTime] that outlives the
// caller's: a cancelled caller is just who leaves something behind.
func CleanUp(ctx context.Context, env Env, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), env.CleanUpTime())
	defer cancel()
	return f(ctx)
}
