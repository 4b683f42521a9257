// Package naive holds locks as they are often written, wrong even on one healthy
// Redis. What is wrong with each is left as found: none of them removes what an
// acquire of unknown outcome may have left, and none can extend.
package naive

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
)

// value is what the locks without owner tokens store.
const value = "locked"

// lease of the locks that release with a plain DEL.
type lease struct {
	node     redis.UniversalClient
	key      string
	deadline time.Time
	release  func(ctx context.Context) error // nil: DEL
}

func (l *lease) Fence() int64                 { return 0 }
func (l *lease) Deadline() time.Time          { return l.deadline }
func (l *lease) Extend(context.Context) error { return lock.ErrUnsupported }
func (l *lease) Lost() <-chan struct{}        { return nil }

func (l *lease) Release(ctx context.Context) error {
	if err := lock.Sendable(ctx); err != nil {
		return fmt.Errorf("releasing %s: %w", l.key, err)
	}
	release := l.release
	if release == nil {
		release = l.del
	}
	if err := release(ctx); err != nil {
		return fmt.Errorf("releasing %s: %w", l.key, lock.Settle(err))
	}
	return nil
}

// del is the plain DEL. The answer 0 says that the key was gone, hence not ours;
// 1 says that a key was removed, which the lock takes for its own.
func (l *lease) del(ctx context.Context) error {
	n, err := l.node.Del(ctx, l.key).Result()
	if err == nil && n == 0 {
		return lock.ErrNotHeld
	}
	return err
}

// setnx sends SETNX itself: go-redis' method of that name sends SET … NX.
func setnx(ctx context.Context, node redis.UniversalClient, key string, value any) error {
	n, err := node.Do(ctx, "SETNX", key, value).Int64()
	if err == nil && n == 0 {
		return lock.ErrBusy
	}
	return err
}
