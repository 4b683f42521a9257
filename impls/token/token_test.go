package token_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/impls/locktest"
	"lockstress/impls/token"
)

const key = "{k}"

type builder func(lock.Env) (lock.Lock, error)

var all = map[string]builder{
	"token": token.NewToken, "watchdog": token.NewWatchdog, "fenced": token.NewFenced,
	"reentrant": token.NewReentrant,
}

func build(t *testing.T, build builder, env lock.Env) lock.Lock {
	t.Helper()
	l, err := build(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func acquire(t *testing.T, l lock.Lock, owner string) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), lock.Request{Key: key, Owner: owner})
	if err != nil {
		t.Fatalf("acquiring for %s: %v", owner, err)
	}
	return lease
}

func TestExpiryThenNotHeld(t *testing.T) {
	for name, b := range all {
		if name == "watchdog" {
			continue // does not expire
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := locktest.Start(t)
			c := server.Client(t)
			a := acquire(t, build(t, b, locktest.Env(50*time.Millisecond, c)), "A")
			locktest.AwaitGone(t, c, key)
			if err := a.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("release after expiry: %v, want ErrNotHeld", err)
			}
			// And when another holds it: nothing of the other's is touched.
			b2 := acquire(t, build(t, b, locktest.Env(time.Minute, server.Client(t))), "B")
			if err := a.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("release of another's lock: %v, want ErrNotHeld", err)
			}
			if err := a.Extend(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("extension of another's lock: %v, want ErrNotHeld", err)
			}
			if ttl := c.PTTL(t.Context(), key).Val(); ttl < 50*time.Second {
				t.Errorf("the other's lock expires in %v, want about a minute", ttl)
			}
			if err := b2.Release(t.Context()); err != nil {
				t.Errorf("the other's release: %v", err)
			}
		})
	}
}

func TestExtendMovesDeadlineAndExpiry(t *testing.T) {
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			c := locktest.Start(t).Client(t)
			const ttl = time.Minute
			a := acquire(t, build(t, b, locktest.Env(ttl, c)), "A")
			first := a.Deadline()
			c.PExpire(t.Context(), key, time.Second)
			before := time.Now()
			if err := a.Extend(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := a.Deadline(); !d.After(first) || d.Before(before.Add(ttl)) || d.After(time.Now().Add(ttl)) {
				t.Errorf("deadline %v after the extension was called, want %v", d.Sub(before), ttl)
			}
			if pttl := c.PTTL(t.Context(), key).Val(); pttl < time.Until(a.Deadline())-time.Millisecond {
				t.Errorf("the key expires before the lease")
			}
		})
	}
}

func TestScriptsUnknownToTheServer(t *testing.T) {
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			c := locktest.Start(t).Client(t)
			flush := func() {
				if err := c.ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			flush()
			a := acquire(t, build(t, b, locktest.Env(time.Minute, c)), "A")
			flush()
			if err := a.Extend(t.Context()); err != nil {
				t.Errorf("extend after SCRIPT FLUSH: %v", err)
			}
			flush()
			sent := locktest.Watch(c)
			if err := a.Release(t.Context()); err != nil {
				t.Errorf("release after SCRIPT FLUSH: %v", err)
			}
			if got := strings.Join(sent.Names(), " "); got != "EVALSHA EVAL" {
				t.Errorf("sent %q, want EVALSHA EVAL", got)
			}
			if n := c.Exists(t.Context(), key).Val(); n != 0 {
				t.Error("the key is still there")
			}
		})
	}
}

// The server executes the acquire and its answer is lost: the key is removed, and
// the caller told that nobody knows.
func TestLostAnswerIsUnknownAndCleanedUp(t *testing.T) {
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := locktest.Start(t)
			c := server.Client(t)
			lost := false
			c.AddHook(&locktest.Commands{After: func(context.Context, redis.Cmder) error {
				if lost {
					return nil
				}
				if n := server.Client(t).Exists(t.Context(), key).Val(); n != 1 {
					t.Error("the acquire was not executed: the case proves nothing")
				}
				lost = true
				cancel() // the caller is gone too
				return io.EOF
			}})
			l := build(t, b, locktest.Env(time.Minute, c))
			_, err := l.Acquire(ctx, lock.Request{Key: key, Owner: "A", Wait: time.Minute})
			if !errors.Is(err, lock.ErrUnknown) || !errors.Is(err, io.EOF) || lock.Certain(err) {
				t.Errorf("error %v, want ErrUnknown for EOF", err)
			}
			if n := c.Exists(t.Context(), key).Val(); n != 0 {
				t.Error("the key was left behind")
			}
		})
	}
}

func TestReadOnlyServerIsARefusal(t *testing.T) {
	server := locktest.Start(t)
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c := server.Client(t)
			c.FlushAll(ctx)
			l := build(t, b, locktest.Env(time.Minute, c))
			a := acquire(t, l, "A")
			// Demoted while it is held. The new primary need not exist.
			if err := c.ReplicaOf(ctx, "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			defer c.ReplicaOf(ctx, "NO", "ONE")
			for what, err := range map[string]error{"release": a.Release(ctx), "extend": a.Extend(ctx)} {
				if !errors.Is(err, lock.ErrRefused) || !lock.Certain(err) {
					t.Errorf("%s: %v, want ErrRefused", what, err)
				}
			}
			if name != "reentrant" { // reading finds the lock taken first
				c.ReplicaOf(ctx, "NO", "ONE")
				c.FlushAll(ctx)
				c.ReplicaOf(ctx, "127.0.0.1", "1")
			}
			if _, err := l.Acquire(ctx, lock.Request{Key: key, Owner: "B"}); !errors.Is(err, lock.ErrRefused) && !errors.Is(err, lock.ErrBusy) {
				t.Errorf("acquire: %v, want ErrRefused", err)
			}
		})
	}
}

// observer notes what a watchdog tells.
type observer struct {
	mu     sync.Mutex
	log    []string
	extend chan struct{} // one value per extension that succeeded
}

func newObserver() *observer { return &observer{extend: make(chan struct{}, 1000)} }

func (o *observer) note(s string) { o.mu.Lock(); o.log = append(o.log, s); o.mu.Unlock() }
func (o *observer) all() string   { o.mu.Lock(); defer o.mu.Unlock(); return strings.Join(o.log, ", ") }

func (o *observer) Extending(owner string) { o.note("extending " + owner) }
func (o *observer) Extended(owner string, _ time.Time, err error) {
	o.note(fmt.Sprintf("extended %s %v", owner, err == nil))
	if err == nil {
		o.extend <- struct{}{}
	}
}
func (o *observer) Lost(owner string) { o.note("lost " + owner) }

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("waiting in vain: %s", what)
	}
}

func TestWatchdogOutlivesTheTTLAndStopsAtRelease(t *testing.T) {
	t.Parallel()
	server := locktest.Start(t)
	c := server.Client(t)
	o := newObserver()
	const ttl = 1200 * time.Millisecond
	env := locktest.Env(ttl, c)
	env.Extended = o
	l := build(t, token.NewWatchdog, env)
	began := time.Now()
	a := acquire(t, l, "A")
	for range 5 {
		await(t, "an extension", o.extend)
	}
	if d := time.Since(began); d < ttl {
		t.Fatalf("five extensions within %v: too soon to prove anything", d)
	}
	if owner := server.Client(t).Get(t.Context(), key).Val(); owner != "A" {
		t.Errorf("after %v the key holds %q", time.Since(began), owner)
	}
	select {
	case <-a.Lost():
		t.Error("lost, though it is held")
	default:
	}
	sent := locktest.Watch(c)
	if err := a.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
	// Nothing after the release, for longer than two extensions would take. A second
	// lease of the same lock measures the time.
	b := build(t, token.NewWatchdog, func() lock.Env {
		e := locktest.Env(ttl, server.Client(t))
		e.Extended = o
		return e
	}())
	acquire(t, b, "B")
	await(t, "B's first extension", o.extend)
	await(t, "B's second extension", o.extend)
	names := sent.Names()
	if len(names) == 0 || len(names) > 2 { // an extension in flight, then the release
		t.Errorf("sent %q from the release on, want the release to be the last", names)
	}
	if log := o.all(); strings.Contains(log[strings.Index(log, "B"):], "A") {
		t.Errorf("told of A after its release: %s", log)
	}
}

func TestWatchdogNoticesLoss(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := locktest.Start(t)
	o := newObserver()
	env := locktest.Env(time.Second, server.Client(t))
	env.Extended = o
	a := acquire(t, build(t, token.NewWatchdog, env), "A")
	server.Client(t).Set(ctx, key, "thief", 0)
	await(t, "the loss", a.Lost())
	if log := o.all(); log != "extending A, extended A false, lost A" {
		t.Errorf("told %q", log)
	}
	if err := a.Release(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("release: %v, want ErrNotHeld", err)
	}
}

func TestWatchdogNoticesThatTheServerIsGone(t *testing.T) {
	t.Parallel()
	server := locktest.Start(t)
	o := newObserver()
	env := locktest.Env(600*time.Millisecond, server.Client(t))
	env.Extended = o
	a := acquire(t, build(t, token.NewWatchdog, env), "A")
	deadline := a.Deadline()
	server.Kill()
	await(t, "the loss", a.Lost())
	if late := time.Since(deadline); late < 0 {
		t.Errorf("lost %v before the deadline, though nobody said so", -late)
	}
	if log := o.all(); !strings.HasSuffix(log, "extended A false, lost A") {
		t.Errorf("told %q", log)
	}
}

func TestWatchdogCloseStopsWithoutReleasing(t *testing.T) {
	t.Parallel()
	server := locktest.Start(t)
	c := server.Client(t)
	l, err := token.NewWatchdog(locktest.Env(900*time.Millisecond, c))
	if err != nil {
		t.Fatal(err)
	}
	a := acquire(t, l, "A")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	direct := server.Client(t)
	if owner := direct.Get(t.Context(), key).Val(); owner != "A" {
		t.Errorf("the key holds %q after Close, want it left alone", owner)
	}
	locktest.AwaitGone(t, direct, key) // nobody extends it any more
	select {
	case <-a.Lost():
		t.Error("lost is told after Close")
	default:
	}
	if _, err := l.Acquire(t.Context(), lock.Request{Key: key, Owner: "B"}); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("acquire after Close: %v, want ErrRefused", err)
	}
	if n := direct.Exists(t.Context(), key).Val(); n != 0 {
		t.Error("an acquire that was refused left its key")
	}
}

// The process stops with the answer in its socket: here the answer is kept back for
// longer than the TTL.
func TestWatchdogRefusesAGrantThatCameTooLateAndTokenDoesNot(t *testing.T) {
	t.Parallel()
	const ttl = 50 * time.Millisecond
	late := func(t *testing.T) (lock.Env, *redis.Client) {
		server := locktest.Start(t)
		direct := server.Client(t)
		c := server.Client(t)
		c.AddHook(&locktest.Commands{After: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "set" {
				locktest.AwaitGone(t, direct, key)
			}
			return nil
		}})
		return locktest.Env(ttl, c), direct
	}
	env, _ := late(t)
	if _, err := build(t, token.NewWatchdog, env).Acquire(t.Context(), lock.Request{Key: key, Owner: "A"}); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("watchdog: %v, want ErrRefused", err)
	}
	env, direct := late(t)
	a := acquire(t, build(t, token.NewToken, env), "A")
	if direct.Exists(t.Context(), key).Val() != 0 || time.Now().Before(a.Deadline()) {
		t.Error("token: want a grant that is over, and a deadline that tells")
	}
}

func TestFencesIncreaseAcrossReleaseAndExpiry(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := locktest.Start(t)
	c := server.Client(t)
	long := build(t, token.NewFenced, locktest.Env(time.Minute, c))
	short := build(t, token.NewFenced, locktest.Env(30*time.Millisecond, server.Client(t)))
	var last int64
	step := func(l lock.Lock, owner string) lock.Lease {
		t.Helper()
		lease := acquire(t, l, owner)
		if lease.Fence() <= last {
			t.Errorf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		return lease
	}
	if err := step(long, "1").Release(ctx); err != nil {
		t.Error(err)
	}
	step(short, "2")
	locktest.AwaitGone(t, c, key)
	a := step(long, "3")
	if _, err := short.Acquire(ctx, lock.Request{Key: key, Owner: "4"}); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("held: %v", err)
	}
	if err := a.Release(ctx); err != nil {
		t.Error(err)
	}
	step(short, "5")
	if last != 4 {
		t.Errorf("the fourth grant has fence %d: a refusal counted", last)
	}
	if ttl := c.PTTL(ctx, token.CounterKey(key)).Val(); ttl != -1 {
		t.Errorf("the counter expires in %v", ttl)
	}
}

func TestFencedTakesNothingIfItCannotCount(t *testing.T) {
	ctx := t.Context()
	c := locktest.Start(t).Client(t)
	c.Set(ctx, token.CounterKey(key), "many", 0)
	// Without the clean-up, which would hide it.
	c.AddHook(&locktest.Commands{Before: func(_ context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && fmt.Sprint(cmd.Args()[2]) == "1" {
			return io.EOF
		}
		return nil
	}})
	_, err := build(t, token.NewFenced, locktest.Env(time.Minute, c)).Acquire(ctx, lock.Request{Key: key, Owner: "A"})
	if err == nil || errors.Is(err, lock.ErrBusy) {
		t.Errorf("error %v", err)
	}
	if n := c.Exists(ctx, key).Val(); n != 0 {
		t.Error("the lock was taken")
	}
}

func TestCounterKeyIsInTheSameSlot(t *testing.T) {
	c := locktest.Start(t, "--cluster-enabled", "yes").Client(t)
	for _, k := range []string{"{k}", "{stock}:lock", "a{b}c{d}", "plain", "open{", "a}b{c}"} {
		counter := token.CounterKey(k)
		if a, b := c.ClusterKeySlot(t.Context(), k), c.ClusterKeySlot(t.Context(), counter); a.Err() != nil || b.Err() != nil || a.Val() != b.Val() {
			t.Errorf("%q is in slot %d, %q in %d (%v, %v)", k, a.Val(), counter, b.Val(), a.Err(), b.Err())
		}
	}
}

func TestReentrantCounts(t *testing.T) {
	ctx := t.Context()
	server := locktest.Start(t)
	c := server.Client(t)
	mine := build(t, token.NewReentrant, locktest.Env(time.Minute, c))
	other := build(t, token.NewReentrant, locktest.Env(time.Minute, server.Client(t)))
	busy := func(when string) {
		t.Helper()
		if _, err := other.Acquire(ctx, lock.Request{Key: key, Owner: "B"}); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("%s: the other got %v, want ErrBusy", when, err)
		}
	}
	outer := acquire(t, mine, "A1")
	inner := acquire(t, mine, "A2")
	if n := c.HLen(ctx, key).Val() - 1; n != 2 {
		t.Errorf("hold count %d, want 2", n)
	}
	busy("held twice")
	if err := outer.Release(ctx); err != nil { // not even in order
		t.Error(err)
	}
	busy("held once")
	if err := outer.Release(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("second release of one hold: %v, want ErrNotHeld", err)
	}
	busy("held once, released twice")
	again := acquire(t, mine, "A3")
	if err := errors.Join(inner.Extend(ctx), inner.Release(ctx), again.Release(ctx)); err != nil {
		t.Error(err)
	}
	b := acquire(t, other, "B1")
	if _, err := mine.Acquire(ctx, lock.Request{Key: key, Owner: "A4"}); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("the former holder: %v, want ErrBusy", err)
	}
	if err := b.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary := locktest.Start(t)
	c := primary.Client(t)
	const ttl = 400 * time.Millisecond

	alone := build(t, token.NewWait, locktest.Env(ttl, c))
	if _, err := alone.Acquire(ctx, lock.Request{Key: key, Owner: "A"}); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("without a replica: %v, want ErrRefused", err)
	}
	if n := c.Exists(ctx, key).Val(); n != 0 {
		t.Error("a refused acquire left its key")
	}

	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := locktest.Start(t, "--replicaof", host+" "+port)
	for !strings.Contains(c.Info(ctx, "replication").Val(), "state=online") {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	env := locktest.Env(time.Minute, c)
	one := build(t, token.NewWait, env)
	a := acquire(t, one, "A")
	if owner := replica.Client(t).Get(ctx, key).Val(); owner != "A" {
		t.Errorf("granted, and the replica holds %q", owner)
	}
	if err := errors.Join(a.Extend(ctx), a.Release(ctx)); err != nil {
		t.Error(err)
	}

	env = locktest.Env(ttl, c)
	env.Replicas = 2
	if _, err := build(t, token.NewWait, env).Acquire(ctx, lock.Request{Key: key, Owner: "B"}); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("one of two replicas: %v, want ErrRefused", err)
	}

	// The replica goes while the lock is held: the extension is executed and not
	// acknowledged.
	long := build(t, token.NewWait, locktest.Env(6*time.Second, c))
	b := acquire(t, long, "C")
	before := b.Deadline()
	replica.Kill()
	if err := b.Extend(ctx); !errors.Is(err, lock.ErrUnknown) || !b.Deadline().Equal(before) {
		t.Errorf("extend without the replica: %v, deadline moved by %v; want ErrUnknown and 0", err, b.Deadline().Sub(before))
	}
}

func TestWaitNeedsAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	if _, err := token.NewWait(locktest.Env(time.Second, cluster)); err == nil {
		t.Error("built on a cluster client")
	}
}
