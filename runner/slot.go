package runner

import (
	"context"
	"errors"
	"fmt"

	"lockstress/faults/network"
	"lockstress/internal/proc"
	"lockstress/scenarios"
	"lockstress/topology"
)

// slot is a place where one trial at a time can run: servers and a proxy process
// that are started when first needed, and used again while they are as they were.
type slot struct {
	group    *proc.Group
	self     []string
	image    string // Docker image of the servers; "" for processes
	proxy    *network.Proxy
	resource *topology.Topology
	servers  map[scenarios.Topology]*topology.Topology
	built    int // topologies with links so far, to tell the names of their links apart
}

func newSlot(group *proc.Group, self []string, image string) *slot {
	return &slot{group: group, self: self, image: image, servers: map[scenarios.Topology]*topology.Topology{}}
}

// network returns the slot's proxy process, started if need be.
func (s *slot) network(ctx context.Context) (*network.Proxy, error) {
	if s.proxy == nil {
		proxy, err := network.Start(ctx, s.group, append(s.self, ProxyCommand)...)
		if err != nil {
			return nil, err
		}
		s.proxy = proxy
	}
	return s.proxy, nil
}

// resourceNode returns the server of the protected resource, which no fault on the
// lock's servers touches.
func (s *slot) resourceNode(ctx context.Context) (*topology.Node, error) {
	if s.resource == nil {
		t, err := topology.Start(ctx, s.group, topology.Spec{Kind: topology.Single, Name: "resource", Image: s.image}, nil)
		if err != nil {
			return nil, err
		}
		s.resource = t
	} else if err := s.resource.Clean(ctx); err != nil {
		return nil, err
	}
	return s.resource.Primary(), nil
}

// topology returns servers of the kind, empty and well.
func (s *slot) topology(ctx context.Context, kind scenarios.Topology) (*topology.Topology, error) {
	if t := s.servers[kind]; t != nil {
		// What a faulty trial left behind shows here at the latest.
		if err := errors.Join(t.Clean(ctx), t.Healthy(ctx)); err == nil {
			return t, t.WaitSync(ctx)
		}
		if err := s.discard(kind); err != nil {
			return nil, err
		}
	}
	var linker topology.Linker
	if kind == scenarios.Replicated || kind == scenarios.Sentinel {
		proxy, err := s.network(ctx)
		if err != nil {
			return nil, err
		}
		s.built++
		linker = linkNamer{proxy: proxy, prefix: fmt.Sprintf("%s%d-", kind, s.built)}
	}
	spec := specOf(kind)
	spec.Image = s.image
	t, err := topology.Start(ctx, s.group, spec, linker)
	if err != nil {
		return nil, err
	}
	s.servers[kind] = t
	return t, nil
}

// specOf says how servers of a kind are started.
func specOf(kind scenarios.Topology) topology.Spec {
	switch kind {
	case scenarios.Independent:
		return topology.Spec{Kind: topology.Independent, Nodes: quorumNodes}
	case scenarios.Durable:
		return topology.Spec{Kind: topology.Independent, Nodes: quorumNodes, Persistent: true}
	}
	return topology.Spec{Kind: topology.Kind(kind)}
}

// discard ends servers that a trial has changed.
func (s *slot) discard(kind scenarios.Topology) error {
	t := s.servers[kind]
	delete(s.servers, kind)
	if t == nil {
		return nil
	}
	return t.Close()
}

// close ends everything of the slot.
func (s *slot) close() error {
	var errs []error
	for kind := range s.servers {
		errs = append(errs, s.discard(kind))
	}
	if s.resource != nil {
		errs = append(errs, s.resource.Close())
	}
	if s.proxy != nil {
		errs = append(errs, s.proxy.Close())
	}
	return errors.Join(errs...)
}

// linkNamer lets a topology make links in a proxy process that serves others too.
type linkNamer struct {
	proxy  *network.Proxy
	prefix string
}

// Link implements [topology.Linker].
func (l linkNamer) Link(name, upstream string) (topology.Link, error) {
	return l.proxy.Link(l.prefix+name, upstream)
}
