package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstress/faults/network"
	"lockstress/topology"

	"github.com/redis/go-redis/v9"
)

func (s *stage) Names() []string {
	var names []string
	for _, n := range s.servers.Nodes() {
		names = append(names, n.Name)
	}
	return names
}

// node returns the server of that name.
func (s *stage) node(name string) (*topology.Node, error) {
	if n := s.servers.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("there is no server %s", name)
}

// syncWitnesses returns once all that the servers have done until now was noted.
func (s *stage) syncWitnesses(ctx context.Context) error {
	for _, n := range s.servers.Nodes() {
		if n.Alive() {
			if err := s.witnesses[n.Name].Sync(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stage) Primary() string { return s.servers.Primary().Name }

func (s *stage) Holders(ctx context.Context) ([]string, error) {
	var names []string
	for _, n := range s.servers.Nodes() {
		if !n.Alive() {
			continue
		}
		there, err := n.Client().Exists(ctx, s.key).Result()
		if err != nil {
			return nil, fmt.Errorf("asking %s (%s) for the lock's key: %w", n.Name, n.Addr, err)
		}
		if there > 0 {
			names = append(names, n.Name)
		}
	}
	return names, nil
}

func (s *stage) StallReplication(ctx context.Context) error {
	s.dirty = true
	primary := s.servers.Primary()
	for _, r := range s.servers.Replicas() {
		link, ok := s.servers.Link(r.Name, primary.Name).(*network.Link)
		if !ok {
			return fmt.Errorf("there is no link from %s to %s that could be cut", r.Name, primary.Name)
		}
		if err := link.Blackhole(); err != nil {
			return err
		}
		s.fault(r.Name, "replication from %s stalled", primary.Name)
	}
	return nil
}

func (s *stage) HealReplication(ctx context.Context) error {
	primary := s.servers.Primary()
	for _, r := range s.servers.Replicas() {
		link, ok := s.servers.Link(r.Name, primary.Name).(*network.Link)
		if !ok {
			return fmt.Errorf("there is no link from %s to %s to heal", r.Name, primary.Name)
		}
		if err := link.Heal(); err != nil {
			return err
		}
		s.heal(r.Name, "replication from %s stalled", primary.Name)
	}
	return s.servers.WaitSync(ctx)
}

func (s *stage) AwaitReplication(ctx context.Context) error { return s.servers.WaitSync(ctx) }

const killed = "server killed"

func (s *stage) Kill(ctx context.Context, node string) error {
	s.dirty = true
	n, err := s.node(node)
	if err != nil {
		return err
	}
	// What it did until now is known even if its last words are lost.
	if err := s.witnesses[node].Sync(ctx); err != nil {
		return err
	}
	s.fault(node, killed)
	return n.Kill()
}

func (s *stage) Restart(ctx context.Context, node string) error {
	if n, err := s.node(node); err != nil {
		return err
	} else if n.Alive() {
		if err := s.Kill(ctx, node); err != nil {
			return err
		}
	}
	n := s.servers.Node(node)
	if err := n.Restart(ctx, topology.RestartOptions{Persistent: s.servers.Spec.Persistent}); err != nil {
		return err
	}
	if err := s.witnesses[node].Rewatch(ctx); err != nil {
		return err
	}
	s.heal(node, killed)
	return nil
}

func (s *stage) Promote(ctx context.Context, left ...int) (string, error) {
	s.dirty = true
	fresh := s.servers.Replicas()[0]
	if err := s.servers.Promote(ctx, fresh); err != nil {
		return "", err
	}
	s.fault(fresh.Name, "promoted to primary")
	for client := range s.actors {
		if slices.Contains(left, client) {
			continue
		}
		if err := s.Follow(client); err != nil {
			return "", err
		}
	}
	return fresh.Name, nil
}

func (s *stage) Follow(client int) error {
	// The link is known by the server that it led to at first.
	link := s.links[s.actors[client].worker.Config.Worker][s.servers.Nodes()[0].Name]
	return link.Repoint(s.servers.Primary().Addr)
}

func (s *stage) Demote(ctx context.Context, node string) error {
	s.dirty = true
	n, err := s.node(node)
	if err != nil {
		return err
	}
	primary := s.servers.Primary()
	s.fault(node, "made a replica of %s", primary.Name)
	return s.servers.Follow(ctx, n, primary)
}

// failoverPatience bounds what takes some two seconds, unless the Sentinels find no
// replica that is good enough, and never will.
const failoverPatience = 20 * time.Second

func (s *stage) AwaitFailover(ctx context.Context) (string, error) {
	s.dirty = true
	old := s.servers.Nodes()[0]
	ctx, cancel := context.WithTimeoutCause(ctx, failoverPatience, fmt.Errorf("no failover within %v", failoverPatience))
	defer cancel()
	fresh, err := s.servers.WaitFailover(ctx, old)
	if err != nil {
		return "", err
	}
	s.fault(fresh.Name, "promoted to primary by the Sentinels")
	return fresh.Name, nil
}

func (s *stage) Stored(ctx context.Context, node string) (string, error) {
	n, err := s.node(node)
	if err != nil {
		return "", err
	}
	value, err := n.Client().Get(ctx, s.key).Result()
	switch {
	case errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "WRONGTYPE"):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the lock's key on %s (%s): %w", n.Name, n.Addr, err)
	}
	return value, nil
}

func (s *stage) Order(ctx context.Context, node string, args ...any) error {
	s.dirty = true
	n, err := s.node(node)
	if err != nil {
		return err
	}
	// The note is not on the server itself: being told something deafens nobody.
	s.fault("", "%s is told: %s", node, strings.TrimSpace(fmt.Sprintln(args...)))
	if err := n.Client().Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("telling %s (%s) %v: %w", n.Name, n.Addr, args, err)
	}
	return nil
}

func (s *stage) Info(ctx context.Context, node, field string) (int64, error) {
	n, err := s.node(node)
	if err != nil {
		return 0, err
	}
	text, err := n.Client().Info(ctx, "everything").Result()
	if err != nil {
		return 0, fmt.Errorf("asking %s (%s) for its INFO: %w", n.Name, n.Addr, err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != field {
			continue
		}
		// "12", "count=12" or "calls=12,usec=…"
		value, _, _ = strings.Cut(value, ",")
		if _, count, ok := strings.Cut(value, "="); ok {
			value = count
		}
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading %s in the INFO of %s: %w", field, n.Name, err)
		}
		return number, nil
	}
	return 0, nil
}
