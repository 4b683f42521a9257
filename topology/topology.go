// Package topology starts the Redis servers of a trial: real redis-server processes,
// or containers that share the machine's network, on free ports of 127.0.0.1, alone, replicated, watched by Sentinels, or as
// independent nodes. It knows nothing of locks or faults; whoever wants the links
// between the servers to be breakable passes a [Linker].
package topology

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstress/internal/proc"
)

// Kind is how the servers of a topology stand to each other.
type Kind string

const (
	Single      Kind = "single"      // one server
	Replicated  Kind = "replicated"  // a primary and replicas that follow it
	Sentinel    Kind = "sentinel"    // the same, and three Sentinels that fail over by themselves
	Independent Kind = "independent" // servers that know nothing of each other
	External    Kind = "external"    // independent servers that run already and are not ours
)

// Spec says what to build. The zero value of a field means its default.
type Spec struct {
	Kind     Kind
	Nodes    int // Independent: how many; default 5
	Replicas int // Replicated, Sentinel: how many; default 1
	// Name is the prefix of the nodes' names; default "n": n1, n2, …
	Name string
	// Persistent servers keep an append-only file, synced before every reply;
	// others come back empty from a restart.
	Persistent bool
	// Image is the Docker image whose redis-server to run, as in "redis:7"; empty
	// for processes of the redis-server on the PATH. docs/docker.md says what is
	// needed for it. An External topology has no use for it.
	Image string
	// Addrs of the servers of an External topology, host:port.
	Addrs []string
}

// StartTimeout bounds [Start] and [Node.Restart] where the context has no earlier
// deadline. Containers have [ContainerStartTimeout].
const StartTimeout = 15 * time.Second

// Topology is a set of running servers. Its methods may be called concurrently with
// each other, but not with [Topology.Close].
type Topology struct {
	Spec Spec
	// Took is how long it took to start, until every replica was in sync and
	// every Sentinel knew everybody.
	Took time.Duration

	group  *proc.Group
	engine engine
	linker Linker
	nodes  []*Node
	watch  *watch // of the Sentinels; nil without

	mu      sync.Mutex
	primary *Node
	links   map[string]Link

	closing  sync.Once
	closeErr error
}

// Start builds a topology and returns once it is ready for use. linker may be nil:
// then the servers talk to each other directly. [ErrNoRedis] is wrapped if there is
// no redis-server to start, [ErrNoDocker] or [ErrNoImage] if there is no container.
func Start(ctx context.Context, group *proc.Group, spec Spec, linker Linker) (*Topology, error) {
	t := &Topology{Spec: spec.withDefaults(), group: group, engine: native{group}, linker: linker, links: map[string]Link{}}
	if spec.Image != "" && spec.Kind != External {
		// An image may have to be pulled, which is no part of the start.
		d, err := newDocker(ctx, group, spec.Image)
		if err != nil {
			return nil, fmt.Errorf("starting a %s topology in Docker: %w", t.Spec.Kind, err)
		}
		t.engine = d
	}
	ctx, cancel := context.WithTimeout(ctx, t.engine.timeout())
	defer cancel()
	began := time.Now()
	if err := t.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a %s topology: %w", t.Spec.Kind, err), t.Close())
	}
	t.Took = time.Since(began)
	return t, nil
}

func (s Spec) withDefaults() Spec {
	if s.Name == "" {
		s.Name = "n"
	}
	switch s.Kind {
	case Independent:
		if s.Nodes == 0 {
			s.Nodes = 5
		}
	case Replicated, Sentinel:
		if s.Replicas == 0 {
			s.Replicas = 1
		}
		s.Nodes = 1 + s.Replicas
	case Single:
		s.Nodes = 1
	case External:
		s.Nodes = len(s.Addrs)
	}
	return s
}

func (t *Topology) build(ctx context.Context) error {
	switch t.Spec.Kind {
	case Single, Independent, Replicated, Sentinel:
		if t.Spec.Nodes < 1 {
			return fmt.Errorf("%d nodes asked for: at least one is needed", t.Spec.Nodes)
		}
	case External:
		return t.connect(ctx)
	default:
		return fmt.Errorf("unknown kind %q", t.Spec.Kind)
	}
	if err := t.startNodes(ctx); err != nil {
		return err
	}
	t.primary = t.nodes[0]
	switch t.Spec.Kind {
	case Replicated:
		return t.replicate(ctx)
	case Sentinel:
		// Before they follow: replicas announce themselves as they connect.
		if err := t.announce(ctx); err != nil {
			return err
		}
		if err := t.replicate(ctx); err != nil {
			return err
		}
		return t.guard(ctx)
	}
	return nil
}

// startNodes starts all servers at once.
func (t *Topology) startNodes(ctx context.Context) error {
	for i := range t.Spec.Nodes {
		t.nodes = append(t.nodes, newNode(t.group, t.engine, fmt.Sprintf("%s%d", t.Spec.Name, i+1)))
	}
	return each(t.nodes, func(n *Node) error { return n.start(ctx, t.Spec.Persistent) })
}

// Nodes returns the servers that hold data, in the order of their names.
func (t *Topology) Nodes() []*Node { return t.nodes }

// Primary returns the node that takes writes: the one node of a Single, the first
// of independent ones, the newest primary where there was a failover.
func (t *Topology) Primary() *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.primary
}

// Replicas returns the nodes of a Replicated or Sentinel topology other than the
// primary, in the order of their names.
func (t *Topology) Replicas() []*Node {
	if t.Spec.Kind != Replicated && t.Spec.Kind != Sentinel {
		return nil
	}
	var replicas []*Node
	for _, n := range t.nodes {
		if n != t.Primary() {
			replicas = append(replicas, n)
		}
	}
	return replicas
}

// NodeAt returns the node with this address, be it its own or the one that it
// announces to Sentinels and replicas; nil if there is none.
func (t *Topology) NodeAt(addr string) *Node {
	for _, n := range t.nodes {
		if n.Addr == addr || n.Announced() == addr {
			return n
		}
	}
	return nil
}

// Node returns the node with this name; nil if there is none.
func (t *Topology) Node(name string) *Node {
	for _, n := range t.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Close ends every server of the topology, waits until each is gone, and removes
// its folders and links. Servers that are not ours are left alone. It is safe to call
// twice.
func (t *Topology) Close() error {
	t.closing.Do(func() { t.closeErr = t.end() })
	return t.closeErr
}

func (t *Topology) end() error {
	var errs []error
	if t.watch != nil {
		errs = append(errs, t.watch.close())
	}
	errs = append(errs, each(t.nodes, (*Node).close))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	clear(t.links)
	return errors.Join(errs...)
}

// each calls f for all items at once and joins the errors.
func each[T any](items []T, f func(T) error) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { errs[i] = f(item) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
