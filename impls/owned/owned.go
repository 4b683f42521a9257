// Package owned is the building block of locks with owner tokens: a key on one node
// whose value is the token of whoever holds it. Every function sends one command
// (two if the node has to be shown the script), and its error speaks of that
// attempt: a sentinel of package lock, or what go-redis returned, for
// lock.Certain to judge.
package owned

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// The scripts answer with numbers only: a nil reply would be redis.Nil, which also
// turns up inside other errors. If EVALSHA is answered NOSCRIPT nothing was
// executed, so the EVAL that follows is still the first and only attempt.
var (
	deleteMine = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	extendMine = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)
)

// Node is whatever runs commands: a client, or one connection of it.
type Node interface {
	redis.Scripter
	SetNX(ctx context.Context, key string, value any, ttl time.Duration) *redis.BoolCmd
}

// Take creates the key for owner with SET NX PX (EX where the TTL is whole
// seconds); lock.ErrBusy means that it exists.
func Take(ctx context.Context, node Node, key, owner string, ttl time.Duration) error {
	if err := lock.Sendable(ctx); err != nil {
		return err
	}
	granted, err := node.SetNX(ctx, key, owner, ttl).Result()
	switch {
	case err != nil:
		return fmt.Errorf("SET %s NX: %w", key, err)
	case !granted:
		return lock.ErrBusy
	}
	return nil
}

// Extend gives the key of owner a full TTL from now; lock.ErrNotHeld means that
// the key is gone or another's.
func Extend(ctx context.Context, node Node, key, owner string, ttl time.Duration) error {
	return run(ctx, node, "extending", extendMine, key, owner, ttl.Milliseconds())
}

// Delete removes the key of owner; lock.ErrNotHeld means that the key is gone or
// another's.
func Delete(ctx context.Context, node Node, key, owner string) error {
	return run(ctx, node, "releasing", deleteMine, key, owner)
}

// CleanUp is Delete after an acquire that failed: that there was nothing to remove
// is no error.
func CleanUp(ctx context.Context, node Node, key, owner string) error {
	if err := Delete(ctx, node, key, owner); !errors.Is(err, lock.ErrNotHeld) {
		return err
	}
	return nil
}

func run(ctx context.Context, node Node, doing string, script *redis.Script, key string, args ...any) error {
	if err := lock.Sendable(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", doing, key, err)
	}
	n, err := script.Run(ctx, node, []string{key}, args...).Int64()
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", doing, key, lock.Settle(err))
	case n == 0:
		return fmt.Errorf("%s %s: %w", doing, key, lock.ErrNotHeld)
	}
	return nil
}
