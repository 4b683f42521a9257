package impls_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls"
	"lockstress/impls/lock"
	"lockstress/impls/locktest"
)

const key = "{stock}:lock"

// world is the servers a lock is tried on: three, the first of them with a replica.
type world struct {
	servers []*locktest.Server
}

func newWorld(t *testing.T) *world {
	w := &world{}
	for range 3 {
		w.servers = append(w.servers, locktest.Start(t))
	}
	primary := w.servers[0]
	host, port, _ := strings.Cut(primary.Addr, ":")
	locktest.Start(t, "--replicaof", host+" "+port)
	c := primary.Client(t)
	for {
		info, err := c.Info(t.Context(), "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info, "state=online") {
			return w
		}
	}
}

// env is a client's own connections, and a look at what is sent on the first.
func (w *world) env(t *testing.T, info impls.Info, ttl time.Duration) (lock.Env, *locktest.Commands) {
	servers := w.servers
	if info.Topology == impls.Single {
		servers = servers[:1]
	}
	var nodes []redis.UniversalClient
	for _, s := range servers {
		nodes = append(nodes, s.Client(t))
	}
	env := locktest.Env(ttl, nodes...)
	env.Rand = rand.New(rand.NewPCG(rand.Uint64(), 5))
	return env, locktest.Watch(nodes[0])
}

func build(t *testing.T, info impls.Info, env lock.Env) *lock.Counted {
	t.Helper()
	l, err := info.New(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	counted, ok := l.(*lock.Counted)
	if !ok {
		t.Fatalf("New returned a %T, want a *lock.Counted", l)
	}
	return counted
}

// What is sent to a node for an acquire that is granted, one that is not, and a
// release, once the scripts are known.
var commands = map[string][3]string{
	"none":             {"", "", ""},
	"naive":            {"SET", "SET", "DEL"},
	"setnx":            {"SETNX", "SETNX", "DEL"},
	"setnx-expire":     {"SETNX PEXPIRE", "SETNX", "DEL"},
	"getset":           {"SETNX", "SETNX GET", "DEL"},
	"check-del":        {"SET", "SET", "GET DEL"},
	"token":            {"SET", "SET", "EVALSHA"},
	"watchdog":         {"SET", "SET", "EVALSHA"},
	"wait":             {"SET WAIT", "SET", "EVALSHA"},
	"reentrant":        {"EVALSHA", "EVALSHA", "EVALSHA"},
	"fenced":           {"EVALSHA", "EVALSHA", "EVALSHA"},
	"redlock":          {"SET", "SET EVALSHA", "EVALSHA"},
	"redlock-watchdog": {"SET", "SET EVALSHA", "EVALSHA"},
}

func TestEveryLock(t *testing.T) {
	w := newWorld(t)
	for _, info := range impls.All() {
		t.Run(info.Name, func(t *testing.T) {
			ctx := t.Context()
			direct := w.servers[0].Client(t)
			for _, s := range w.servers {
				if err := s.Client(t).FlushAll(ctx).Err(); err != nil {
					t.Fatal(err)
				}
			}
			const ttl = 20 * time.Second
			env, sent := w.env(t, info, ttl)
			a := build(t, info, env)
			otherEnv, otherSent := w.env(t, info, ttl)
			b := build(t, info, otherEnv)

			// Once through, so that the servers know the scripts and WAIT's
			// connection is made.
			l, err := a.Acquire(ctx, lock.Request{Key: key, Owner: "warm"})
			if err != nil {
				t.Fatalf("granting a free lock: %v", err)
			}
			if err := l.Release(ctx); err != nil {
				t.Fatalf("releasing: %v", err)
			}
			if _, err := direct.Get(ctx, key).Result(); err != redis.Nil {
				t.Fatalf("the key is still there after the release: %v", err)
			}

			sent.Reset()
			before := time.Now()
			l, err = a.Acquire(ctx, lock.Request{Key: key, Owner: "A1"})
			after := time.Now()
			if err != nil {
				t.Fatalf("granting a free lock again: %v", err)
			}
			wantSent(t, "granted acquire", sent, commands[info.Name][0])

			if !info.Expires {
				if !l.Deadline().IsZero() {
					t.Errorf("a lock that does not expire has the deadline %v", l.Deadline())
				}
			} else if d := l.Deadline(); d.After(after.Add(ttl)) || d.Before(before.Add(ttl-ttl/50)) {
				t.Errorf("deadline %v after the acquire was called, want about %v", d.Sub(before), ttl)
			}
			if (l.Fence() != 0) != info.Fences {
				t.Errorf("fence %d, Fences is %v", l.Fence(), info.Fences)
			}
			if (l.Lost() != nil) != info.Notices {
				t.Errorf("Lost() is %v, Notices is %v", l.Lost(), info.Notices)
			}

			// The server's expiry is no earlier than the lease's deadline. Getset
			// keeps it in the value.
			if info.Locks && info.Name != "getset" {
				pttl := direct.PTTL(ctx, key).Val()
				if left := time.Until(l.Deadline()); info.Expires && pttl < left-time.Millisecond {
					t.Errorf("the key expires in %v, the lease in %v", pttl, left)
				} else if !info.Expires && pttl != -1 {
					t.Errorf("PTTL %v, want none", pttl)
				}
			}
			if info.Family == impls.Token && info.Name != "reentrant" || info.Family == impls.Redlock || info.Name == "check-del" {
				if owner := direct.Get(ctx, key).Val(); owner != "A1" {
					t.Errorf("the key holds %q, want the owner token", owner)
				}
			}

			otherSent.Reset()
			_, err = b.Acquire(ctx, lock.Request{Key: key, Owner: "B1"})
			if !info.Locks {
				if err != nil {
					t.Errorf("no lock refused: %v", err)
				}
			} else if !errors.Is(err, lock.ErrBusy) {
				t.Errorf("second client: %v, want ErrBusy", err)
			}
			wantSent(t, "refused acquire", otherSent, commands[info.Name][1])

			sent.Reset()
			if err := l.Release(ctx); err != nil {
				t.Errorf("release: %v", err)
			}
			wantSent(t, "release", sent, commands[info.Name][2])

			if info.Locks {
				if err := l.Release(ctx); !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("release of a free lock: %v, want ErrNotHeld", err)
				}
				want := lock.Counts{Acquires: 2, Releases: 3, NotHeld: 1}
				if got := a.Counts(); got != want {
					t.Errorf("counts %+v, want %+v", got, want)
				}
				if got := b.Counts(); got != (lock.Counts{Acquires: 1, Failed: 1}) {
					t.Errorf("the other's counts %+v", got)
				}
			}
			if l, err = b.Acquire(ctx, lock.Request{Key: key, Owner: "B2"}); err != nil {
				t.Fatalf("granting it to the other after the release: %v", err)
			}
			if err := l.Release(ctx); err != nil {
				t.Errorf("the other's release: %v", err)
			}
		})
	}
}

func wantSent(t *testing.T, what string, c *locktest.Commands, want string) {
	t.Helper()
	if got := strings.Join(c.Names(), " "); got != want {
		t.Errorf("%s sent %q, want %q", what, got, want)
	}
}

// An acquire that waits is granted when the holder releases, and not before.
func TestEveryLockWaits(t *testing.T) {
	w := newWorld(t)
	for _, info := range impls.All() {
		if !info.Locks {
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			ctx := t.Context()
			k := "{" + info.Name + "}"
			env, _ := w.env(t, info, 20*time.Second)
			a := build(t, info, env)
			env, tries := w.env(t, info, 20*time.Second)
			b := build(t, info, env)
			l, err := a.Acquire(ctx, lock.Request{Key: k, Owner: "A"})
			if err != nil {
				t.Fatal(err)
			}
			tries.Reset()
			granted := make(chan error, 1)
			go func() {
				_, err := b.Acquire(ctx, lock.Request{Key: k, Owner: "B", Wait: time.Minute})
				granted <- err
			}()
			for len(tries.Names()) < 6 {
				runtime.Gosched()
			}
			select {
			case err := <-granted:
				t.Fatalf("acquire returned while the other holds: %v", err)
			default:
			}
			if err := l.Release(ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-granted; err != nil {
				t.Fatalf("acquire after the release: %v", err)
			}
		})
	}
}

// Eight clients increment a plain variable under the lock.
func TestEveryLockExcludes(t *testing.T) {
	const clients, rounds = 8, 12
	w := newWorld(t)
	for _, info := range impls.All() {
		if !info.Locks {
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			counter, inside := 0, 0
			var wg sync.WaitGroup
			for client := range clients {
				env, _ := w.env(t, info, 20*time.Second)
				l := build(t, info, env)
				wg.Go(func() {
					for round := range rounds {
						lease, err := l.Acquire(t.Context(), lock.Request{
							Key: "{" + info.Name + "}:n", Owner: fmt.Sprintf("%d/%d", client, round), Wait: time.Minute,
						})
						if err != nil {
							t.Error(err)
							return
						}
						inside++
						read := counter
						for range 20 {
							runtime.Gosched()
						}
						if inside != 1 {
							t.Errorf("%d clients inside", inside)
						}
						counter = read + 1
						inside--
						if err := lease.Release(t.Context()); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if counter != clients*rounds {
				t.Errorf("counter %d, want %d", counter, clients*rounds)
			}
		})
	}
}

func TestAllIsWellFormed(t *testing.T) {
	var names, families []string
	for _, info := range impls.All() {
		if info.Name == "" || info.Summary == "" || info.New == nil || info.Topology == "" {
			t.Errorf("incomplete: %+v", info)
		}
		if !info.Locks && (info.Expires || info.Fences || info.Notices) {
			t.Errorf("%s is no lock but has a lock's traits", info.Name)
		}
		names = append(names, info.Name)
		families = append(families, info.Family)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(impls.All()) {
		t.Error("a name is used twice")
	}
	families = slices.Compact(families)
	if want := []string{impls.Control, impls.Naive, impls.Token, impls.Redlock}; !slices.Equal(families, want) {
		t.Errorf("families %v, want %v, each in one piece", families, want)
	}
}

func TestFind(t *testing.T) {
	for _, info := range impls.All() {
		if got, err := impls.Find(info.Name); err != nil || got.Name != info.Name {
			t.Errorf("Find(%q) = %q, %v", info.Name, got.Name, err)
		}
	}
	_, err := impls.Find("redlok")
	if err == nil || !strings.Contains(err.Error(), "did you mean redlock?") {
		t.Errorf("error %v, want a hint at redlock", err)
	}
	for _, info := range impls.All() {
		if !strings.Contains(err.Error(), info.Name) {
			t.Errorf("error %v does not name %s", err, info.Name)
		}
	}
}

func TestNewRefusesABadEnv(t *testing.T) {
	server := locktest.Start(t)
	good := func() lock.Env { return locktest.Env(time.Second, server.Client(t)) }
	impatient := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { impatient.Close() })
	cases := map[string]func(*lock.Env){
		"no nodes":       func(e *lock.Env) { e.Nodes = nil },
		"nil node":       func(e *lock.Env) { e.Nodes = []redis.UniversalClient{nil} },
		"no TTL":         func(e *lock.Env) { e.TTL = 0 },
		"no pause":       func(e *lock.Env) { e.RetryMin = 0 },
		"pauses crossed": func(e *lock.Env) { e.RetryMax = e.RetryMin - 1 },
		"no randomness":  func(e *lock.Env) { e.Rand = nil },
	}
	for _, info := range impls.All() {
		if info.Locks {
			for name, spoil := range cases {
				env := good()
				spoil(&env)
				if _, err := info.New(env); err == nil {
					t.Errorf("%s was built with %s", info.Name, name)
				}
			}
		}
		env := good()
		env.Nodes = append(env.Nodes, server.Client(t))
		if _, err := info.New(env); err == nil && info.Locks {
			t.Errorf("%s was built on two connections to one server", info.Name)
		}
		env = good()
		env.Nodes = []redis.UniversalClient{impatient}
		if _, err := info.New(env); (err != nil) != (info.Notices || info.Topology == impls.Quorum) {
			t.Errorf("%s on a connection that ignores deadlines: %v", info.Name, err)
		}
	}
}
