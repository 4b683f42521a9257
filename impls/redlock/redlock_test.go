package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/impls/locktest"
	"lockstress/impls/redlock"
)

const key = "{k}"

// cluster is N independent servers, each with a connection for looking at it.
type cluster struct {
	servers []*locktest.Server
	direct  []*redis.Client
}

func start(t *testing.T, n int) *cluster {
	c := &cluster{}
	for range n {
		s := locktest.Start(t)
		c.servers = append(c.servers, s)
		c.direct = append(c.direct, s.Client(t))
	}
	return c
}

func (c *cluster) clients(t *testing.T) []redis.UniversalClient {
	var nodes []redis.UniversalClient
	for _, s := range c.servers {
		nodes = append(nodes, s.Client(t))
	}
	return nodes
}

func (c *cluster) put(t *testing.T, owner string, nodes ...int) {
	for _, n := range nodes {
		if err := c.direct[n].Set(t.Context(), key, owner, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// holders is who holds the key on each node, "-" for nobody.
func (c *cluster) holders(t *testing.T) string {
	var s []string
	for _, d := range c.direct {
		owner, err := d.Get(t.Context(), key).Result()
		if err == redis.Nil {
			owner = "-"
		} else if err != nil {
			owner = "?"
		}
		s = append(s, owner)
	}
	return strings.Join(s, " ")
}

func build(t *testing.T, ttl time.Duration, nodes []redis.UniversalClient) lock.Lock {
	t.Helper()
	l, err := redlock.New(locktest.Env(ttl, nodes...))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func request(owner string) lock.Request { return lock.Request{Key: key, Owner: owner} }

func TestMinorityTakenIsGranted(t *testing.T) {
	c := start(t, 5)
	c.put(t, "X", 1, 3)
	before := time.Now()
	const ttl = time.Minute
	a, err := build(t, ttl, c.clients(t)).Acquire(t.Context(), request("A"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.holders(t); got != "A X A X A" {
		t.Errorf("holders %s", got)
	}
	drift := ttl/100 + 2*time.Millisecond
	if d := a.Deadline(); d.Before(before.Add(ttl-drift)) || d.After(time.Now().Add(ttl-drift)) {
		t.Errorf("deadline %v after the call, want TTL − drift, %v", d.Sub(before), ttl-drift)
	}
	if err := a.Extend(t.Context()); err != nil {
		t.Errorf("extend: %v", err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
	if got := c.holders(t); got != "- X - X -" {
		t.Errorf("holders after the release %s", got)
	}
}

func TestMajorityTakenIsBusyAndEverythingFreed(t *testing.T) {
	c := start(t, 5)
	c.put(t, "X", 0, 2, 4)
	_, err := build(t, time.Minute, c.clients(t)).Acquire(t.Context(), request("A"))
	if !errors.Is(err, lock.ErrBusy) {
		t.Errorf("error %v, want ErrBusy", err)
	}
	if got := c.holders(t); got != "X - X - X" {
		t.Errorf("holders %s", got)
	}
}

func TestMinorityOfNodesDown(t *testing.T) {
	c := start(t, 5)
	nodes := c.clients(t)
	l := build(t, time.Minute, nodes)
	c.servers[1].Kill()
	c.servers[3].Kill()
	a, err := l.Acquire(t.Context(), request("A"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Extend(t.Context()); err != nil {
		t.Errorf("extend: %v", err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
	if got := c.holders(t); got != "- ? - ? -" {
		t.Errorf("holders after the release %s", got)
	}
}

func TestMajorityOfNodesDownIsRefused(t *testing.T) {
	c := start(t, 3)
	l := build(t, time.Minute, c.clients(t))
	a, err := l.Acquire(t.Context(), lock.Request{Key: "{other}", Owner: "A"})
	if err != nil {
		t.Fatal(err)
	}
	c.servers[0].Kill()
	c.servers[1].Kill()
	_, err = l.Acquire(t.Context(), request("B"))
	if !errors.Is(err, lock.ErrRefused) || !lock.Certain(err) {
		t.Errorf("acquire: %v, want ErrRefused", err)
	}
	if got := c.holders(t); got != "? ? -" {
		t.Errorf("holders %s", got)
	}
	// One node extended, the others certainly did not.
	if err := a.Extend(t.Context()); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("extend: %v, want ErrRefused", err)
	}
	// One node deleted it: neither a release nor none.
	if err := a.Release(t.Context()); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("release: %v, want ErrUnknown", err)
	}
	c.servers[2].Kill()
	if err := a.Release(t.Context()); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("release with all nodes down: %v, want ErrRefused", err)
	}
}

func TestSilentNodeIsBoundedByTheNodeTimeout(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	const ttl = 4 * time.Second
	nodes := append(c.clients(t), locktest.Dial(t, locktest.Silent(t)))
	l := build(t, ttl, nodes)
	began := time.Now()
	a, err := l.Acquire(t.Context(), request("A"))
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	// It has to wait for the node that does not answer, and no longer.
	// go-redis by itself would wait for 5 s.
	if limit := redlock.NodeTimeout(ttl); took < limit/2 || took > ttl {
		t.Errorf("acquire took %v, want about the node timeout, %v", took, limit)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}

// Three of five do not answer: their keys may exist or come to exist, so it is not
// known whether a majority holds it; what can be freed is.
func TestSilentMajorityIsUnknown(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	nodes := c.clients(t)
	for range 3 {
		nodes = append(nodes, locktest.Dial(t, locktest.Silent(t)))
	}
	l := build(t, 4*time.Second, nodes)
	began := time.Now()
	_, err := l.Acquire(t.Context(), lock.Request{Key: key, Owner: "A", Wait: time.Minute})
	if !errors.Is(err, lock.ErrUnknown) || lock.Certain(err) {
		t.Errorf("error %v, want ErrUnknown", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v: it went on trying", took)
	}
	if got := c.holders(t); got != "- -" {
		t.Errorf("holders %s", got)
	}
}

// Two of three execute the request and their answers are lost: a delete of each key
// that is answered settles it.
func TestLostAnswersThatAreCleanedUpAreRefused(t *testing.T) {
	c := start(t, 3)
	nodes := c.clients(t)
	for _, n := range nodes[:2] {
		n.AddHook(&locktest.Commands{After: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "set" {
				return io.EOF
			}
			return nil
		}})
	}
	_, err := build(t, time.Minute, nodes).Acquire(t.Context(), request("A"))
	if !errors.Is(err, lock.ErrRefused) {
		t.Errorf("error %v, want ErrRefused", err)
	}
	if got := c.holders(t); got != "- - -" {
		t.Errorf("holders %s", got)
	}
}

// The answers are kept back until the keys have expired, as when the process is
// stopped with them in its sockets.
func TestMajorityTooLateIsRefusedAndFreed(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	c := start(t, 3)
	nodes := c.clients(t)
	deletes := atomic.Int32{}
	for i, n := range nodes {
		n.AddHook(&locktest.Commands{After: func(_ context.Context, cmd redis.Cmder) error {
			switch cmd.Name() {
			case "set":
				locktest.AwaitGone(t, c.direct[i], key)
			case "evalsha", "eval":
				deletes.Add(1)
			}
			return nil
		}})
	}
	_, err := build(t, ttl, nodes).Acquire(t.Context(), request("A"))
	if !errors.Is(err, lock.ErrRefused) || !strings.Contains(err.Error(), "after the lease had ended") {
		t.Errorf("error %v, want ErrRefused for being late", err)
	}
	if n := deletes.Load(); n != 3 {
		t.Errorf("released on %d nodes, want 3", n)
	}
}

// Late by the client's clock while the keys still exist.
func TestLateMajorityWithLiveKeysIsFreed(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	c := start(t, 3)
	nodes := c.clients(t)
	began := time.Now()
	nodes[0].AddHook(&locktest.Commands{After: func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "set" {
			for _, d := range c.direct {
				d.Persist(context.Background(), key)
			}
			<-time.After(time.Until(began.Add(ttl)))
		}
		return nil
	}})
	_, err := build(t, ttl, nodes).Acquire(t.Context(), request("A"))
	if !errors.Is(err, lock.ErrRefused) {
		t.Errorf("error %v, want ErrRefused", err)
	}
	if got := c.holders(t); got != "- - -" {
		t.Errorf("holders %s", got)
	}
}

func TestFailureIsFreedThoughTheCallerIsGone(t *testing.T) {
	c := start(t, 3)
	nodes := c.clients(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.put(t, "X", 1, 2)
	nodes[0].AddHook(&locktest.Commands{After: func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "set" {
			cancel()
		}
		return nil
	}})
	_, err := build(t, time.Minute, nodes).Acquire(ctx, lock.Request{Key: key, Owner: "A", Wait: time.Minute})
	if err == nil {
		t.Fatal("granted")
	}
	if got := c.holders(t); got != "- X X" {
		t.Errorf("holders %s", got)
	}
}

func TestReleaseTellsTheTruth(t *testing.T) {
	tests := []struct {
		lost []int
		want error
	}{
		{[]int{}, nil},
		{[]int{1}, nil},
		{[]int{0, 2}, lock.ErrNotHeld},
		{[]int{0, 1, 2}, lock.ErrNotHeld},
	}
	c := start(t, 3)
	l := build(t, time.Minute, c.clients(t))
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.lost), func(t *testing.T) {
			for _, d := range c.direct {
				d.FlushAll(t.Context())
			}
			a, err := l.Acquire(t.Context(), request("A"))
			if err != nil {
				t.Fatal(err)
			}
			c.put(t, "B", tt.lost...)
			first := a.Deadline()
			if err := a.Extend(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("extend: %v, want %v", err, tt.want)
			}
			if moved := a.Deadline().After(first); moved != (tt.want == nil) {
				t.Errorf("deadline moved: %v", moved)
			}
			if err := a.Release(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("release: %v, want %v", err, tt.want)
			}
			if got := c.holders(t); strings.Contains(got, "A") || strings.Count(got, "B") != len(tt.lost) {
				t.Errorf("holders %s", got)
			}
		})
	}
}

// One of three denies and one is down: whether the majority was ours is not known.
func TestReleaseWithADenialAndANodeDownIsUnknown(t *testing.T) {
	c := start(t, 3)
	a, err := build(t, time.Minute, c.clients(t)).Acquire(t.Context(), request("A"))
	if err != nil {
		t.Fatal(err)
	}
	c.put(t, "B", 1)
	c.servers[2].Kill()
	if err := a.Extend(t.Context()); !errors.Is(err, lock.ErrRefused) {
		t.Errorf("extend: %v, want ErrRefused", err)
	}
	if err := a.Release(t.Context()); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("release: %v, want ErrUnknown", err)
	}
}

func TestSameServerTwiceIsRefused(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	one, two := c.servers[0], c.servers[1]
	_, err := redlock.New(locktest.Env(time.Minute, one.Client(t), two.Client(t), one.Client(t)))
	if err == nil || !strings.Contains(err.Error(), one.Addr) {
		t.Errorf("same address: %v", err)
	}
	alias := strings.Replace(one.Addr, "127.0.0.1", "localhost", 1)
	_, err = redlock.New(locktest.Env(time.Minute, one.Client(t), two.Client(t), locktest.Dial(t, alias)))
	if err == nil || !strings.Contains(err.Error(), "run id") {
		t.Errorf("same server by another name: %v", err)
	}
	one.Kill()
	if _, err := redlock.New(locktest.Env(time.Minute, one.Client(t), two.Client(t))); err != nil {
		t.Errorf("a node that is down: %v, want the benefit of the doubt", err)
	}
}

func TestWatchdogExtendsOnAMajorityAndNoticesItsLoss(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	const ttl = 1500 * time.Millisecond
	beats := &beats{extended: make(chan bool, 1000)}
	env := locktest.Env(ttl, c.clients(t)...)
	env.Extended = beats
	l, err := redlock.NewWatchdog(env)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	a, err := l.Acquire(t.Context(), request("A"))
	if err != nil {
		t.Fatal(err)
	}
	c.put(t, "B", 1)
	for ok := 0; ok < 4; {
		select {
		case good := <-beats.extended:
			if good {
				ok++
			}
		case <-a.Lost():
			t.Fatalf("lost after %v with a majority left", time.Since(began))
		}
	}
	if time.Since(began) < ttl {
		t.Fatal("too soon to prove anything")
	}
	if got := c.holders(t); got != "A B A" {
		t.Errorf("holders after %v: %s", time.Since(began), got)
	}
	c.put(t, "B", 2)
	select {
	case <-a.Lost():
	case <-time.After(20 * time.Second):
		t.Fatal("a lost majority is not noticed")
	}
	if err := a.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("release: %v, want ErrNotHeld", err)
	}
}

type beats struct{ extended chan bool }

func (*beats) Extending(string)                            {}
func (b *beats) Extended(_ string, _ time.Time, err error) { b.extended <- err == nil }
func (*beats) Lost(string)                                 {}
