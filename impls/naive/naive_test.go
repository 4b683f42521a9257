package naive_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/impls/locktest"
	"lockstress/impls/naive"
)

const key = "{k}"

type builder func(lock.Env) (lock.Lock, error)

func acquire(t *testing.T, build builder, env lock.Env, owner string) lock.Lease {
	t.Helper()
	l, err := build(env)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(t.Context(), lock.Request{Key: key, Owner: owner})
	if err != nil {
		t.Fatalf("acquiring for %s: %v", owner, err)
	}
	return lease
}

// The known faults are there, as documented: they are what the harness must find.

func TestLateReleaseDeletesTheLockOfAnother(t *testing.T) {
	for name, build := range map[string]builder{"naive": naive.NewNaive, "setnx-expire": naive.NewSetnxExpire, "getset": naive.NewGetset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.Start(t).Client(t)
			const ttl = 60 * time.Millisecond
			a := acquire(t, build, locktest.Env(ttl, c), "A")
			if name == "getset" {
				// Its expiry is in the value: wait until it is over, on the same clock.
				<-time.After(time.Until(a.Deadline()) + 2*time.Millisecond)
			} else {
				locktest.AwaitGone(t, c, key)
			}
			acquire(t, build, locktest.Env(time.Minute, c), "B")
			if err := a.Release(t.Context()); err != nil {
				t.Errorf("late release: %v, want nil, its false answer", err)
			}
			acquire(t, build, locktest.Env(time.Minute, c), "C") // beside B
		})
	}
}

func TestCheckDelNoticesButNotBetweenItsCommands(t *testing.T) {
	ctx := t.Context()
	server := locktest.Start(t)
	c := server.Client(t)
	direct := server.Client(t)
	between := func() {}
	hook := &locktest.Commands{After: func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "get" {
			between()
		}
		return nil
	}}
	c.AddHook(hook)

	a := acquire(t, naive.NewCheckDel, locktest.Env(time.Minute, c), "A")
	direct.Set(ctx, key, "B", 0)
	if err := a.Release(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("release of another's lock: %v, want ErrNotHeld", err)
	}
	if direct.Get(ctx, key).Val() != "B" {
		t.Error("the other's lock was deleted though GET told")
	}

	direct.Set(ctx, key, "A", 0)
	between = func() { direct.Set(ctx, key, "B", 0) }
	if err := a.Release(ctx); err != nil {
		t.Errorf("release: %v, want nil, its false answer", err)
	}
	if n := direct.Exists(ctx, key).Val(); n != 0 {
		t.Error("the race between GET and DEL did not delete the other's lock")
	}

	direct.Set(ctx, key, "A", 0)
	between = func() { direct.Del(ctx, key) }
	if err := a.Release(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("key gone between GET and DEL: %v, want ErrNotHeld", err)
	}
}

func TestSetnxExpireLeavesALockWithoutExpiry(t *testing.T) {
	ctx := t.Context()
	server := locktest.Start(t)
	c := server.Client(t)
	c.AddHook(&locktest.Commands{Before: func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "pexpire" {
			return io.EOF
		}
		return nil
	}})
	l, err := naive.NewSetnxExpire(locktest.Env(time.Second, c))
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Acquire(ctx, lock.Request{Key: key, Owner: "A", Wait: time.Minute})
	if !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("error %v, want ErrUnknown", err)
	}
	if ttl := c.PTTL(ctx, key).Val(); ttl != -1 {
		t.Errorf("PTTL %v, want a key without expiry", ttl)
	}
}

func TestGetsetTakesOverAndLosersOverwrite(t *testing.T) {
	ctx := t.Context()
	server := locktest.Start(t)
	direct := server.Client(t)
	past := time.Now().Add(-time.Hour).UnixMilli()
	direct.Set(ctx, key, past, 0)

	// C reads the old value, then B takes over, then C sends its GETSET.
	c := server.Client(t)
	var stored string
	c.AddHook(&locktest.Commands{After: func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "get" && stored == "" {
			acquire(t, naive.NewGetset, locktest.Env(time.Minute, server.Client(t)), "B")
			stored = direct.Get(ctx, key).Val()
		}
		return nil
	}})
	l, err := naive.NewGetset(locktest.Env(time.Hour, c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(ctx, lock.Request{Key: key, Owner: "C"}); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("the loser: %v, want ErrBusy", err)
	}
	if now := direct.Get(ctx, key).Val(); now == stored || stored == "" {
		t.Errorf("the key holds %q, the winner's %q: want the loser's in its place", now, stored)
	}

	direct.Set(ctx, key, "something else", 0)
	if _, err := l.Acquire(ctx, lock.Request{Key: key, Owner: "C"}); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("a key of another kind: %v, want ErrRefused", err)
	}
}

func TestExtendIsUnsupported(t *testing.T) {
	server := locktest.Start(t)
	for name, build := range map[string]builder{
		"naive": naive.NewNaive, "setnx": naive.NewSetnx, "setnx-expire": naive.NewSetnxExpire,
		"getset": naive.NewGetset, "check-del": naive.NewCheckDel,
	} {
		lease := acquire(t, build, locktest.Env(time.Minute, server.Client(t)), "A")
		if err := lease.Extend(t.Context()); !errors.Is(err, lock.ErrUnsupported) {
			t.Errorf("%s: Extend: %v, want ErrUnsupported", name, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("%s: Release: %v", name, err)
		}
	}
}
