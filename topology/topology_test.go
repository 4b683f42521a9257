package topology

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstress/internal/proc"
	"lockstress/internal/redistest"
)

// needRedis skips a test where there is no Redis, except in CI.
func newGroup(t *testing.T) *proc.Group {
	t.Helper()
	g, err := proc.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func start(t *testing.T, spec Spec, linker Linker) *Topology {
	t.Helper()
	redistest.Need(t)
	top, err := Start(t.Context(), newGroup(t), spec, linker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := top.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%s of %d nodes, ready after %v", top.Spec.Kind, len(top.nodes), top.Took.Round(time.Millisecond))
	return top
}

func healthy(t *testing.T, top *Topology) {
	t.Helper()
	if err := top.Healthy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, n *Node, key, value string) {
	t.Helper()
	if err := n.Client().Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatalf("SET on %s: %v", n.Name, err)
	}
}

func get(t *testing.T, n *Node, key string) string {
	t.Helper()
	s, err := n.Client().Do(t.Context(), "EVAL", "return redis.call('GET', KEYS[1]) or ''", 1, key).Text()
	if err != nil {
		t.Fatalf("GET on %s: %v", n.Name, err)
	}
	return s
}

// forwarder is a Linker for tests: plain TCP, and links that can be cut.
type forwarder struct {
	mu    sync.Mutex
	links map[string]*forward
}

type forward struct {
	name, upstream string
	l              net.Listener
	mu             sync.Mutex
	cut            bool
	conns          map[net.Conn]bool
	wg             sync.WaitGroup
}

func (f *forwarder) Link(name, upstream string) (Link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &forward{name: name, upstream: upstream, l: l, conns: map[net.Conn]bool{}}
	w.wg.Go(w.serve)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.links == nil {
		f.links = map[string]*forward{}
	}
	f.links[name] = w
	return w, nil
}

func (w *forward) serve() {
	for {
		a, err := w.l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", w.upstream)
		if err != nil || !w.keep(a, b) {
			a.Close()
			if b != nil {
				b.Close()
			}
			continue
		}
		w.wg.Go(func() { io.Copy(a, b); a.Close(); b.Close() })
		w.wg.Go(func() { io.Copy(b, a); a.Close(); b.Close() })
	}
}

func (w *forward) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	return !w.cut
}

func (w *forward) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.conns {
		c.Close()
	}
}

func (w *forward) Addr() string { return w.l.Addr().String() }

func (w *forward) Close() error {
	err := w.l.Close()
	w.Cut()
	w.wg.Wait()
	return err
}

func TestSingle(t *testing.T) {
	top := start(t, Spec{Kind: Single, Name: "r"}, nil)
	n := top.Primary()
	if n.Name != "r1" || top.NodeAt(n.Addr) != n || top.Node("r1") != n || n.Version() == "" || n.Pid() == 0 {
		t.Errorf("node: %s %s version %q process %d", n.Name, n.Addr, n.Version(), n.Pid())
	}
	if len(top.Replicas()) != 0 || len(top.Sentinels()) != 0 {
		t.Error("a single has replicas or Sentinels")
	}
	healthy(t, top)
	for option, want := range map[string]string{"save": "", "appendonly": "no", "bind": "127.0.0.1"} {
		if got := n.Client().ConfigGet(t.Context(), option).Val()[option]; got != want {
			t.Errorf("%s is %q, not %q", option, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	top := start(t, Spec{Kind: Replicated}, nil)
	n, ctx := top.Primary(), t.Context()
	set(t, n, "{stress:1}", "x")
	sha := n.Client().ScriptLoad(ctx, "return 1").Val()
	n.Client().ConfigSet(ctx, "maxmemory", "100mb")
	if err := top.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	for _, n := range top.Nodes() {
		if size := n.Client().DBSize(ctx).Val(); size != 0 {
			t.Errorf("%s still has %d keys", n.Name, size)
		}
	}
	if n.Client().ScriptExists(ctx, sha).Val()[0] {
		t.Error("a script is left")
	}
	if got := n.Client().ConfigGet(ctx, "maxmemory").Val()["maxmemory"]; got != "0" {
		t.Errorf("maxmemory is %s", got)
	}
	healthy(t, top)
}

func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after bool // persistent
		want          string
	}{
		{"never persistent", false, false, ""},
		{"always persistent", true, true, "x"},
		{"no longer persistent", true, false, ""},
		{"persistent from now on", false, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := start(t, Spec{Kind: Single, Persistent: c.before}, nil)
			n := top.Primary()
			addr, pid := n.Addr, n.Pid()
			set(t, n, "k", "x")
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
			if n.Alive() || syscall.Kill(pid, 0) == nil {
				t.Fatal("alive after being killed")
			}
			if err := top.Healthy(t.Context()); err == nil {
				t.Error("healthy with a dead node")
			}
			if err := n.Restart(t.Context(), RestartOptions{Persistent: c.after}); err != nil {
				t.Fatal(err)
			}
			if n.Addr != addr || n.Pid() == pid || !n.Alive() {
				t.Errorf("restarted as process %d on %s, was %d on %s", n.Pid(), n.Addr, pid, addr)
			}
			if got := get(t, n, "k"); got != c.want {
				t.Errorf("after the restart k is %q, not %q", got, c.want)
			}
			healthy(t, top)
		})
	}
}

// What a persistent life left must not come back two lives later.
func TestRestartForgets(t *testing.T) {
	top := start(t, Spec{Kind: Single, Persistent: true}, nil)
	n := top.Primary()
	set(t, n, "k", "x")
	for _, persistent := range []bool{false, true} {
		if err := n.Restart(t.Context(), RestartOptions{Persistent: persistent}); err != nil {
			t.Fatal(err)
		}
		if got := get(t, n, "k"); got != "" {
			t.Errorf("k is %q", got)
		}
	}
}

func TestPause(t *testing.T) {
	top := start(t, Spec{Kind: Single}, nil)
	n := top.Primary()
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := top.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("health of a paused node: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.Client().Ping(ctx).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a paused node answers: %v", err)
	}
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	healthy(t, top)
	if err := n.Pause(); err != nil { // a paused one can be killed
		t.Fatal(err)
	}
	if err := n.Kill(); err != nil || n.Alive() {
		t.Errorf("killing a paused node: %v, alive %v", err, n.Alive())
	}
	if n.Pause() == nil {
		t.Error("a dead node was paused")
	}
}

func TestIndependent(t *testing.T) {
	top := start(t, Spec{Kind: Independent}, nil)
	if len(top.Nodes()) != 5 {
		t.Fatalf("%d nodes", len(top.Nodes()))
	}
	for _, n := range top.Nodes() {
		set(t, n, "k", n.Name)
	}
	for _, n := range top.Nodes() {
		if got := get(t, n, "k"); got != n.Name {
			t.Errorf("%s has %q", n.Name, got)
		}
	}
	healthy(t, top)
}

func TestPromote(t *testing.T) {
	top := start(t, Spec{Kind: Replicated, Replicas: 2}, nil)
	ctx := t.Context()
	first, second, third := top.Nodes()[0], top.Nodes()[1], top.Nodes()[2]
	set(t, first, "k", "x")
	if err := top.WaitSync(ctx); err != nil {
		t.Fatal(err)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := top.Promote(ctx, second); err != nil {
		t.Fatal(err)
	}
	if top.Primary() != second {
		t.Errorf("the primary is %s", top.Primary().Name)
	}
	if get(t, second, "k") != "x" {
		t.Error("the replica had not followed")
	}
	set(t, second, "k", "y")
	if top.Healthy(ctx) == nil {
		t.Error("healthy after a promotion")
	}
	// The others are put behind the new primary, the dead one included.
	if err := first.Restart(ctx, RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*Node{first, third} {
		if err := top.Follow(ctx, n, second); err != nil {
			t.Fatal(err)
		}
	}
	if err := top.WaitSync(ctx); err != nil {
		t.Fatal(err)
	}
	if get(t, first, "k") != "y" || get(t, third, "k") != "y" {
		t.Error("the others do not follow the new primary")
	}
	// A replica that restarts goes on following.
	if err := third.Restart(ctx, RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := top.WaitSync(ctx); err != nil {
		t.Fatal(err)
	}
	if get(t, third, "k") != "y" {
		t.Error("a restarted replica does not follow")
	}
}

// With the replication link cut, the primary's write is lost by a promotion.
func TestCutReplication(t *testing.T) {
	links := &forwarder{}
	top := start(t, Spec{Kind: Replicated}, links)
	healthy(t, top)
	replica := top.Replicas()[0]
	if top.Link("n2", "n1") == nil || replica.follows() != links.links["n2-n1"].Addr() {
		t.Fatal("the replica does not follow through its link")
	}
	links.links["n2-n1"].Cut()
	set(t, top.Primary(), "k", "x")
	if err := top.Promote(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	if got := get(t, replica, "k"); got != "" {
		t.Errorf("the replica has %q in spite of the cut", got)
	}
}

func TestSentinelFailover(t *testing.T) {
	for _, c := range []struct {
		name     string
		linker   Linker
		cut      bool
		replicas int
	}{{"direct", nil, false, 2}, {"linked", &forwarder{}, true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := start(t, Spec{Kind: Sentinel, Replicas: c.replicas}, c.linker)
			healthy(t, top)
			if len(top.Sentinels()) != 3 {
				t.Fatalf("%d Sentinels", len(top.Sentinels()))
			}
			old := top.Primary()
			if c.cut {
				c.linker.(*forwarder).links["n2-n1"].Cut()
			}
			set(t, old, "k", "x")
			if err := old.Kill(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			now, err := top.WaitFailover(ctx, old)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("failed over after %v", time.Since(began).Round(time.Millisecond))
			if now == old || now != top.Primary() {
				t.Errorf("the new primary is %s", now.Name)
			}
			if role, err := now.Role(ctx); role != "master" {
				t.Errorf("the new primary is a %s (%v)", role, err)
			}
			if again, err := top.WaitFailover(ctx, old); again != now || err != nil {
				t.Errorf("a second wait says %v, %v", again, err)
			}
			if got := get(t, now, "k"); c.cut && got != "" {
				t.Errorf("the replica has %q in spite of the cut", got)
			}
			if top.Healthy(ctx) == nil {
				t.Error("healthy after a failover")
			}
			for _, n := range top.Replicas() {
				if n != old && n.follows() != now.Announced() {
					t.Errorf("%s is thought to follow %s", n.Name, n.follows())
				}
			}
		})
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	top := start(t, Spec{Kind: Sentinel}, &forwarder{})
	var pids []int
	var dirs []string
	for _, n := range top.Nodes() {
		pids, dirs = append(pids, n.Pid()), append(dirs, n.dir)
	}
	for _, s := range top.watch.sentinels {
		pids, dirs = append(pids, s.server.Pid), append(dirs, s.dir)
	}
	if err := top.Nodes()[1].Pause(); err != nil {
		t.Fatal(err)
	}
	if err := top.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder %s is left: %v", dir, err)
		}
	}
	if err := top.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestNoRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), newGroup(t), Spec{Kind: Single}, nil)
	if !errors.Is(err, ErrNoRedis) {
		t.Errorf("without a redis-server: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	redistest.Need(t)
	_, err := launch(t.Context(), newGroup(t), "n1", t.TempDir(), "Ready to accept", "--port", "0", "--no-such-option", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the error does not carry what the server said: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	_, err = launch(t.Context(), newGroup(t), "n1", t.TempDir(), "Ready to accept", "--port", port, "--bind", "127.0.0.1")
	if !errors.Is(err, errPortTaken) {
		t.Errorf("on a taken port: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = launch(ctx, newGroup(t), "n1", t.TempDir(), "no server says this", "--port", "0", "--unixsocket", t.TempDir()+"/s")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("never ready: %v", err)
	}
}

func TestExternal(t *testing.T) {
	theirs := start(t, Spec{Kind: Single}, nil).Primary()
	set(t, theirs, "theirs", "x")
	set(t, theirs, "{stress:1}", "x")
	set(t, theirs, "{stress:1}:fence", "x")
	ctx := t.Context()
	top, err := Start(ctx, newGroup(t), Spec{Kind: External, Addrs: []string{theirs.Addr}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := top.Primary()
	healthy(t, top)
	if n.Version() != theirs.Version() || n.Ours() || n.Pid() != 0 {
		t.Errorf("version %s, ours %v, process %d", n.Version(), n.Ours(), n.Pid())
	}
	for what, err := range map[string]error{
		"kill": n.Kill(), "pause": n.Pause(), "restart": n.Restart(ctx, RestartOptions{}),
		"promote": top.Promote(ctx, n), "follow": top.Follow(ctx, n, n),
	} {
		if !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := top.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	keys := theirs.Client().Keys(ctx, "*").Val()
	if len(keys) != 1 || keys[0] != "theirs" {
		t.Errorf("left after cleaning: %q", keys)
	}
	if err := top.Close(); err != nil || !theirs.Alive() {
		t.Errorf("closing: %v; alive %v", err, theirs.Alive())
	}
}
