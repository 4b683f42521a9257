package topology

import (
	"context"
	"fmt"
)

// Clean makes the servers as good as new, so that the topology can serve another
// trial: no keys, no scripts, no counts in INFO, no limit on memory. It waits until
// replicas have followed. On servers that are not ours only the locks' keys go; see
// [KeyPrefix].
func (t *Topology) Clean(ctx context.Context) error {
	if t.Spec.Kind == External {
		return each(t.nodes, func(n *Node) error { return n.deleteKeys(ctx) })
	}
	replica := map[*Node]bool{}
	for _, n := range t.Replicas() {
		replica[n] = true
	}
	if err := each(t.nodes, func(n *Node) error { return n.clean(ctx, !replica[n]) }); err != nil {
		return err
	}
	if len(replica) == 0 {
		return nil
	}
	return t.WaitSync(ctx)
}

func (n *Node) clean(ctx context.Context, flush bool) error {
	p := n.Client().Pipeline()
	p.ConfigSet(ctx, "maxmemory", "0")
	p.ConfigSet(ctx, "maxmemory-policy", "noeviction")
	if flush { // a replica refuses, and follows
		p.FlushAll(ctx)
	}
	p.ScriptFlush(ctx)
	p.ConfigResetStat(ctx)
	if _, err := p.Exec(ctx); err != nil {
		return fmt.Errorf("cleaning %s (%s): %w", n.Name, n.Addr, err)
	}
	return nil
}

// Healthy says whether the topology still is what it was built as: every server
// alive and answering, roles unchanged, links up. The error names what is not.
func (t *Topology) Healthy(ctx context.Context) error {
	if len(t.nodes) == 0 {
		return fmt.Errorf("the topology has no nodes")
	}
	replicated := t.Spec.Kind == Replicated || t.Spec.Kind == Sentinel
	if err := each(t.nodes, func(n *Node) error { return n.healthy(ctx) }); err != nil {
		return err
	}
	if !replicated {
		return nil
	}
	if now, first := t.Primary(), t.nodes[0]; now != first {
		return fmt.Errorf("the primary is %s, not %s any more", now.Name, first.Name)
	}
	role, err := t.nodes[0].Role(ctx)
	if err != nil {
		return err
	}
	if role != "master" {
		return fmt.Errorf("the primary %s (%s) has become a %s", t.nodes[0].Name, t.nodes[0].Addr, role)
	}
	if err := each(t.nodes[1:], func(n *Node) error { return n.linkUp(ctx) }); err != nil {
		return err
	}
	if t.watch != nil {
		return t.watch.knownToAll(ctx)
	}
	return nil
}

func (n *Node) healthy(ctx context.Context) error {
	n.mu.Lock()
	alive, paused := n.alive(), n.paused
	n.mu.Unlock()
	switch {
	case !alive:
		return fmt.Errorf("%s (%s) is dead", n.Name, n.Addr)
	case paused:
		return fmt.Errorf("%s (%s) is paused", n.Name, n.Addr)
	}
	if err := n.Client().Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%s (%s) does not answer: %w", n.Name, n.Addr, err)
	}
	return nil
}
