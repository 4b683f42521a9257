package topology

import (
	"context"
	"errors"
	"fmt"
)

// KeyPrefix begins the name of every key that the harness writes. It is all that is
// ever deleted on servers that are not ours.
const KeyPrefix = "{stress:"

// connect joins servers that run already.
func (t *Topology) connect(ctx context.Context) error {
	if len(t.Spec.Addrs) == 0 {
		return errors.New("no addresses given")
	}
	for i, addr := range t.Spec.Addrs {
		t.nodes = append(t.nodes, &Node{Name: fmt.Sprintf("%s%d", t.Spec.Name, i+1), Addr: addr, client: dial(addr)})
	}
	t.primary = t.nodes[0]
	return each(t.nodes, func(n *Node) error {
		info, err := n.Client().InfoMap(ctx, "server").Result()
		if err != nil {
			return fmt.Errorf("connecting to %s: %w", n.Addr, err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.version = info["Server"]["redis_version"]
		return nil
	})
}

// deleteKeys removes the harness's keys, and them only.
func (n *Node) deleteKeys(ctx context.Context) error {
	c := n.Client()
	keys := c.Scan(ctx, 0, KeyPrefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("deleting %s on %s (%s): %w", keys.Val(), n.Name, n.Addr, err)
		}
	}
	if err := keys.Err(); err != nil {
		return fmt.Errorf("looking for keys %s* on %s (%s): %w", KeyPrefix, n.Name, n.Addr, err)
	}
	return nil
}
