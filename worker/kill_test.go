package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstress/history"
	"lockstress/internal/clock"
	"lockstress/internal/proc"
	"lockstress/internal/redistest"
	"lockstress/topology"
	"lockstress/witness"
)

func TestMain(m *testing.M) {
	Quiet()
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		if err := Run(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fixture is a server for lock and resource, and a way to start workers on it.
type fixture struct {
	t      *testing.T
	group  *proc.Group
	node   *topology.Node
	worker []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	redistest.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	group, err := proc.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	servers, err := topology.Start(t.Context(), group, topology.Spec{Kind: topology.Single}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { servers.Close() })
	return &fixture{t, group, servers.Primary(), []string{self, "worker"}}
}

// config is for one client with the lock token, on keys of its own.
func (f *fixture) config(n int, initial int64) Config {
	f.t.Helper()
	c := Config{
		Clients: []int{0}, Nonce: fmt.Sprintf("n%d", n),
		TTL: 10 * time.Second, RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond,
		Key: fmt.Sprintf("{stress:%d}", n), ResourceKey: fmt.Sprintf("{stress:%d}:stock", n),
		Resource: f.node.Addr, Nodes: []string{f.node.Addr},
		Journal: filepath.Join(f.t.TempDir(), fmt.Sprintf("%d.jsonl", n)),
		Header: history.Header{
			Lock: "token", Guard: "none", Workload: "stock", Clients: 1, Nodes: 1, Locks: true, Expires: true,
			TTL: int64(10 * time.Second), Initial: initial, Amount: 1, Origin: clock.Now(), Seed: int64(n),
		},
	}
	if err := f.node.Client().Set(f.t.Context(), c.ResourceKey, initial, 0).Err(); err != nil {
		f.t.Fatal(err)
	}
	return c
}

func kills(t *testing.T) int {
	if s := os.Getenv("STRESS_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 40
}

// A worker killed at any instant loses no operation that reached a server.
func TestKilledWorkerLosesNoInvocation(t *testing.T) {
	f := newFixture(t)
	random := rand.New(rand.NewPCG(1, 2))
	operations, torn := 0, 0
	for n := range kills(t) {
		const initial = 1_000_000
		config := f.config(n, initial)
		seen := f.watch(config)
		w, err := Start(t.Context(), f.group, f.worker, config)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Order(0, Order{Wait: time.Second}); err != nil {
			t.Fatal(err)
		}
		// The instant is random on purpose; the assertion holds at every one.
		time.Sleep(time.Duration(random.Int64N(int64(15 * time.Millisecond))))
		if err := w.Kill(); err != nil {
			t.Fatal(err)
		}
		<-w.Done()
		effects := seen()
		left, err := f.node.Client().Get(t.Context(), config.ResourceKey).Int64()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(config.Journal)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.TrimRight(string(raw), "\x00"); !strings.HasSuffix(text, "\n") {
			torn++
		}
		h, err := history.LoadJournal(config.Journal)
		if err != nil {
			t.Fatal(err)
		}
		ops, err := h.Operations()
		if err != nil {
			t.Fatal(err)
		}
		operations += len(ops)
		compare(t, ops, effects, initial-left)
	}
	t.Logf("%d kills, %d operations, %d lines torn by a kill", kills(t), operations, torn)
	if operations == 0 {
		t.Error("no worker got as far as an operation: nothing was tested")
	}
}

// watch returns a function that gives all that the server did to the lock's key.
func (f *fixture) watch(c Config) func() []witness.Seen {
	f.t.Helper()
	w, err := witness.Watch(f.t.Context(), f.node.Addr, f.node.Name, witness.Options{
		Key: func(stored string) (string, bool) { return stored, stored == c.Key },
		Owner: func(value string) int64 {
			n, _ := strconv.ParseInt(strings.TrimPrefix(value, c.Nonce+"-"), 10, 64)
			return n
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return func() []witness.Seen {
		f.t.Helper()
		if err := w.Sync(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			f.t.Fatal(err)
		}
		return w.Seen()
	}
}

// compare holds what the history says against what the server did.
func compare(t *testing.T, ops []history.Operation, effects []witness.Seen, written int64) {
	t.Helper()
	acquires, releases := map[int64]bool{}, map[int64]bool{}
	var buys, sold int64
	for _, o := range ops {
		switch o.Op {
		case history.Acquire:
			acquires[o.Hold] = true
		case history.Release:
			releases[o.Hold] = true
		case history.Buy:
			buys++
			if o.Outcome == history.OK {
				sold++
			}
		}
	}
	for _, e := range effects {
		if e.Effect == history.Set && !acquires[e.Hold] {
			t.Errorf("the server granted hold %d, which the history never asked for", e.Hold)
		}
		if e.Effect == history.Removed && !releases[e.Hold] {
			t.Errorf("the server released hold %d, which the history never gave back", e.Hold)
		}
	}
	if written > buys || written < sold {
		t.Errorf("the server has %d writes; the history has %d, %d of them answered ok", written, buys, sold)
	}
}
