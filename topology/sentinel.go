package topology

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MasterName is what Sentinels call the primary of a Sentinel topology.
const MasterName = "lockstress"

const (
	sentinels = 3
	quorum    = 2
	downAfter = 500 * time.Millisecond
	// A Sentinel repoints a replica that follows its primary by another address
	// than the one announced, as ours do through links of their own, but only
	// once the failover timeout has passed. So it is long while all is well …
	calmTimeout = time.Hour
	// … and short once the primary is down, since a lost election is repeated
	// after twice that time only.
	downTimeout = time.Second
)

// sentinelNode is one running Sentinel.
type sentinelNode struct {
	name, addr, id string
	dir            string
	server         *server
}

// Sentinels returns the addresses of the Sentinels, host:port; none without.
func (t *Topology) Sentinels() []string {
	if t.watch == nil {
		return nil
	}
	var addrs []string
	for _, s := range t.watch.sentinels {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// announce tells the nodes by which addresses the Sentinels will know them.
func (t *Topology) announce(ctx context.Context) error {
	return each(t.nodes, func(n *Node) error {
		addr, err := t.route("sentinels", n)
		if err != nil {
			return err
		}
		return n.setAnnounce(ctx, addr)
	})
}

// guard starts the Sentinels and waits until they know everybody.
func (t *Topology) guard(ctx context.Context) error {
	// Their configurations name each other's ports, so one lost race for a port
	// means new ports for all.
	for {
		group, err := t.startSentinels(ctx)
		if err == nil {
			t.watch = newWatch(t, group)
			break
		}
		err = errors.Join(err, each(group, t.endSentinel))
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
	if err := t.watch.subscribe(ctx); err != nil {
		return err
	}
	return t.watch.waitKnown(ctx)
}

func (n *Node) setAnnounce(ctx context.Context, addr string) error {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("announcing %s: %w", n.Name, err)
	}
	if err := n.Client().Do(ctx, "CONFIG", "SET", "replica-announce-ip", h, "replica-announce-port", p).Err(); err != nil {
		return fmt.Errorf("making %s (%s) announce %s: %w", n.Name, n.Addr, addr, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.announce = addr
	return nil
}

func (t *Topology) startSentinels(ctx context.Context) ([]*sentinelNode, error) {
	var group []*sentinelNode
	for i := range sentinels {
		port, err := freePort()
		if err != nil {
			return group, err
		}
		name := fmt.Sprintf("s%d", i+1)
		dir, err := t.group.TempDir("lockstress-" + name + "-")
		if err != nil {
			return group, err
		}
		group = append(group, &sentinelNode{name: name, dir: dir, addr: net.JoinHostPort(host, strconv.Itoa(port)), id: randomID()})
	}
	return group, each(group, func(s *sentinelNode) error { return t.startSentinel(ctx, s, group) })
}

func randomID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (t *Topology) startSentinel(ctx context.Context, s *sentinelNode, group []*sentinelNode) error {
	// A Sentinel rewrites its configuration, so it needs a file.
	file := filepath.Join(s.dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(t.sentinelConfig(s, group)), 0o600); err != nil {
		return fmt.Errorf("configuring sentinel %s: %w", s.name, err)
	}
	var err error
	s.server, err = t.engine.launch(ctx, s.name, s.dir, "Sentinel ID is", file, "--sentinel")
	return err
}

// sentinelConfig names everybody, so that nobody has to be discovered.
func (t *Topology) sentinelConfig(s *sentinelNode, group []*sentinelNode) string {
	var b strings.Builder
	split := func(addr string) string { return strings.Replace(addr, ":", " ", 1) }
	_, port, _ := net.SplitHostPort(s.addr)
	fmt.Fprintf(&b, "port %s\nbind %s\ndaemonize no\nlogfile \"\"\n", port, host)
	fmt.Fprintf(&b, "dir %s\n", strconv.Quote(s.dir))
	fmt.Fprintf(&b, "sentinel myid %s\n", s.id)
	fmt.Fprintf(&b, "sentinel announce-ip %s\nsentinel announce-port %s\n", host, port)
	fmt.Fprintf(&b, "sentinel monitor %s %s %d\n", MasterName, split(t.Primary().Announced()), quorum)
	fmt.Fprintf(&b, "sentinel down-after-milliseconds %s %d\n", MasterName, downAfter.Milliseconds())
	fmt.Fprintf(&b, "sentinel failover-timeout %s %d\n", MasterName, calmTimeout.Milliseconds())
	for _, n := range t.Replicas() {
		fmt.Fprintf(&b, "sentinel known-replica %s %s\n", MasterName, split(n.Announced()))
	}
	for _, other := range group {
		if other != s {
			fmt.Fprintf(&b, "sentinel known-sentinel %s %s %s\n", MasterName, split(other.addr), other.id)
		}
	}
	return b.String()
}

func (t *Topology) endSentinel(s *sentinelNode) error {
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.end())
	}
	return errors.Join(append(errs, t.group.RemoveDir(s.dir))...)
}

// known says whether a Sentinel is connected to the primary, to all replicas and to
// the other Sentinels, and has heard from each.
func (w *watch) known(ctx context.Context, s *sentinelClient) error {
	master, err := s.client.Do(ctx, "SENTINEL", "MASTER", MasterName).Result()
	if err != nil {
		return fmt.Errorf("asking sentinel %s (%s) about the primary: %w", s.name, s.addr, err)
	}
	m := fields(master)
	if want := w.topology.Primary().Announced(); net.JoinHostPort(m["ip"], m["port"]) != want {
		return fmt.Errorf("sentinel %s takes %s:%s for the primary, not %s", s.name, m["ip"], m["port"], want)
	}
	if m["flags"] != "master" {
		return fmt.Errorf("sentinel %s sees the primary as %s", s.name, m["flags"])
	}
	if err := w.peers(ctx, s, "SENTINELS", "sentinel", len(w.sentinels)-1, nil); err != nil {
		return err
	}
	return w.peers(ctx, s, "REPLICAS", "slave", len(w.topology.Replicas()), func(r map[string]string) bool {
		return r["master-link-status"] == "ok"
	})
}

func (w *watch) peers(ctx context.Context, s *sentinelClient, what, flags string, want int, ok func(map[string]string) bool) error {
	answer, err := s.client.Do(ctx, "SENTINEL", what, MasterName).Slice()
	if err != nil {
		return fmt.Errorf("asking sentinel %s (%s) for its %s: %w", s.name, s.addr, strings.ToLower(what), err)
	}
	good := slices.DeleteFunc(answer, func(a any) bool {
		f := fields(a)
		return f["flags"] != flags || ok != nil && !ok(f)
	})
	if len(good) < want {
		return fmt.Errorf("sentinel %s is connected to %d of %d %s", s.name, len(good), want, strings.ToLower(what))
	}
	return nil
}

// fields reads an answer of names and values, which is a map or a list by protocol.
func fields(answer any) map[string]string {
	m := map[string]string{}
	switch a := answer.(type) {
	case map[any]any:
		for k, v := range a {
			m[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any:
		for i := 0; i+1 < len(a); i += 2 {
			m[fmt.Sprint(a[i])] = fmt.Sprint(a[i+1])
		}
	}
	return m
}
