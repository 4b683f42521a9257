package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstress/faults/network"
	"lockstress/scenarios"

	"golang.org/x/sync/errgroup"
)

// way is a link with the name of the server that it leads to.
type way struct {
	node string
	link *network.Link
}

// ways of a client to the named servers of the lock, or to all, in order.
func (s *stage) ways(client int, nodes []string) ([]way, error) {
	w := s.actors[client].worker
	if s.links == nil {
		return nil, fmt.Errorf("%s is not proxied: there is no link of client %d to bend", s.cell.Scenario.Name, client)
	}
	links := s.links[w.Config.Worker]
	if len(nodes) == 0 {
		nodes = slices.Sorted(maps.Keys(links))
	}
	var list []way
	for _, node := range nodes {
		link := links[node]
		if link == nil {
			return nil, fmt.Errorf("there is no link from client %d to %s", client, node)
		}
		list = append(list, way{node, link})
	}
	return list, nil
}

// bent is the fault of a link at present, as noted.
type bent struct{ who, what string }

// bend does something to the ways of a client; what says of the servers' names what it
// is. The note names the client's side: the server is well, and its witness hears
// everything.
func (s *stage) bend(client int, nodes []string, what string, f func(*network.Link) error) error {
	ways, err := s.ways(client, nodes)
	if err != nil {
		return err
	}
	var names []string
	for _, w := range ways {
		names = append(names, w.node)
	}
	b := bent{s.actors[client].worker.Name, strings.Join(names, ", ") + " " + what}
	s.fault(b.who, "%s", b.what)
	for _, w := range ways {
		if err := f(w.link); err != nil {
			return err
		}
		s.bent[w.link] = b
	}
	return nil
}

func (s *stage) Lose(client int, nodes ...string) error {
	return s.bend(client, nodes, "unreachable", (*network.Link).Blackhole)
}

func (s *stage) Cut(client int, nodes ...string) error {
	return s.bend(client, nodes, "refusing connections", (*network.Link).Cut)
}

func (s *stage) Slow(client int, d time.Duration, nodes ...string) error {
	return s.bend(client, nodes, fmt.Sprintf("%d ms away", d.Milliseconds()), func(l *network.Link) error { return l.Latency(d, 0) })
}

func (s *stage) Heal(client int, nodes ...string) error {
	ways, err := s.ways(client, nodes)
	if err != nil {
		return err
	}
	over := map[bent]bool{} // one note for all links of a fault
	for _, w := range ways {
		if err := w.link.Heal(); err != nil {
			return err
		}
		if b, ok := s.bent[w.link]; ok {
			over[b] = true
			delete(s.bent, w.link)
		}
	}
	for b := range over {
		s.heal(b.who, "%s", b.what)
	}
	return nil
}

// carrying returns the links on which t passes.
func (s *stage) carrying(t scenarios.Traffic) ([]*network.Link, error) {
	if t.Resource {
		if s.resourceLinks == nil {
			return nil, fmt.Errorf("%s has no proxy on the way to the resource", s.cell.Scenario.Name)
		}
		return []*network.Link{s.resourceLinks[s.actors[t.Client].worker.Config.Worker]}, nil
	}
	ways, err := s.ways(t.Client, t.Nodes)
	var links []*network.Link
	for _, w := range ways {
		links = append(links, w.link)
	}
	return links, err
}

// held implements [scenarios.Held] on some links of one client.
type held struct {
	stage *stage
	text  string
	node  string
	holds []*network.Hold
}

func (s *stage) Hold(ctx context.Context, t scenarios.Traffic) (scenarios.Held, error) {
	links, err := s.carrying(t)
	if err != nil {
		return nil, err
	}
	h := &held{stage: s, text: t.What + " held in the network", node: s.actors[t.Client].worker.Name}
	for _, link := range links {
		hold, err := link.Hold(ctx, network.HoldSpec{Commands: t.Commands, Reply: t.Replies})
		if err != nil {
			return nil, err
		}
		h.holds = append(h.holds, hold)
	}
	s.fault(h.node, "%s", h.text)
	return h, nil
}

func (h *held) each(f func(*network.Hold) error) error {
	var all errgroup.Group
	for _, hold := range h.holds {
		all.Go(func() error { return f(hold) })
	}
	return all.Wait()
}

func (h *held) Wait(ctx context.Context, n int) error {
	return h.each(func(hold *network.Hold) error { return hold.Wait(ctx, n) })
}

func (h *held) Step(ctx context.Context) error {
	return h.each(func(hold *network.Hold) error {
		_, err := hold.Step(ctx, 0)
		return err
	})
}

func (h *held) Count(ctx context.Context) (int, error) {
	var counts []int
	for _, hold := range h.holds {
		list, err := hold.Held(ctx)
		if err != nil {
			return 0, err
		}
		counts = append(counts, len(list))
	}
	return slices.Min(counts), nil
}

func (h *held) Release(ctx context.Context) error {
	err := h.each(func(hold *network.Hold) error { return hold.Release(ctx) })
	h.stage.heal(h.node, "%s", h.text)
	return err
}

// dropped implements [scenarios.Dropped] likewise.
type dropped struct {
	stage *stage
	text  string
	node  string
	drops []*network.Drop
}

func (s *stage) DropReply(ctx context.Context, t scenarios.Traffic) (scenarios.Dropped, error) {
	links, err := s.carrying(t)
	if err != nil {
		return nil, err
	}
	d := &dropped{stage: s, text: t.What + " lost in the network", node: s.actors[t.Client].worker.Name}
	for _, link := range links {
		drop, err := link.DropReply(ctx, network.DropSpec{Commands: t.Commands, Count: 1, Reset: true})
		if err != nil {
			return nil, err
		}
		d.drops = append(d.drops, drop)
	}
	s.fault(d.node, "%s", d.text)
	return d, nil
}

func (d *dropped) Wait(ctx context.Context, n int) error {
	var all errgroup.Group
	for _, drop := range d.drops {
		all.Go(func() error { return drop.Wait(ctx, n) })
	}
	return all.Wait()
}

func (d *dropped) Disarm(ctx context.Context) error {
	var errs []error
	for _, drop := range d.drops {
		errs = append(errs, drop.Disarm(ctx))
	}
	d.stage.heal(d.node, "%s", d.text)
	return errors.Join(errs...)
}
