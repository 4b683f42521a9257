package topology

import "fmt"

// Linker makes links that a fault can cut, delay or hold.
type Linker interface {
	// Link opens an address that leads to upstream (host:port). name is unique
	// within the topology: see [Topology.Link].
	Link(name, upstream string) (Link, error)
}

// Link leads from one process to one server.
type Link interface {
	Addr() string // host:port to connect to
	Close() error
}

// Link returns the link between two parties, nil if there is none or the topology
// has no [Linker]. Between a replica and its primary, from is the replica's name and
// to the primary's. All Sentinels share one link to a node, with from "sentinels":
// a server announces one address only. The linker knows it as "from-to".
func (t *Topology) Link(from, to string) Link {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.links[linkName(from, to)]
}

func linkName(from, to string) string { return from + "-" + to }

// route returns the address at which from reaches n.
func (t *Topology) route(from string, n *Node) (string, error) {
	if t.linker == nil {
		return n.Addr, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	name := linkName(from, n.Name)
	if l := t.links[name]; l != nil {
		return l.Addr(), nil
	}
	l, err := t.linker.Link(name, n.Addr)
	if err != nil {
		return "", fmt.Errorf("linking %s to %s (%s): %w", from, n.Name, n.Addr, err)
	}
	t.links[name] = l
	return l.Addr(), nil
}
