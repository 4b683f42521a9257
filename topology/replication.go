package topology

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicate makes all nodes but the first follow it.
func (t *Topology) replicate(ctx context.Context) error {
	primary := t.Primary()
	if err := each(t.Replicas(), func(n *Node) error { return t.attach(ctx, n, primary) }); err != nil {
		return err
	}
	return t.WaitSync(ctx)
}

// Follow makes a node a replica of another, through the link from the one to the
// other. It returns at once: see [Topology.WaitSync]. A node that took writes before
// loses what the new primary does not have.
func (t *Topology) Follow(ctx context.Context, n, primary *Node) error {
	if err := t.attach(ctx, n, primary); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.primary == n {
		t.primary = primary
	}
	return nil
}

func (t *Topology) attach(ctx context.Context, n, primary *Node) error {
	if !n.Ours() {
		return fmt.Errorf("making %s (%s) follow %s: %w", n.Name, n.Addr, primary.Name, ErrNotOurs)
	}
	addr, err := t.route(n.Name, primary)
	if err != nil {
		return err
	}
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("linking %s to %s: %w", n.Name, primary.Name, err)
	}
	if err := n.Client().SlaveOf(ctx, h, p).Err(); err != nil {
		return fmt.Errorf("making %s (%s) follow %s (%s): %w", n.Name, n.Addr, primary.Name, addr, err)
	}
	n.setFollow(addr)
	return nil
}

func (n *Node) setFollow(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.follow = addr
}

func (n *Node) follows() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.follow
}

// Promote makes a replica the primary, as an operator would: it takes writes from
// then on. The other replicas go on following whom they followed.
func (t *Topology) Promote(ctx context.Context, replica *Node) error {
	if !replica.Ours() {
		return fmt.Errorf("promoting %s (%s): %w", replica.Name, replica.Addr, ErrNotOurs)
	}
	if err := replica.Client().SlaveOf(ctx, "NO", "ONE").Err(); err != nil {
		return fmt.Errorf("promoting %s (%s): %w", replica.Name, replica.Addr, err)
	}
	role, err := replica.Role(ctx)
	if err != nil {
		return err
	}
	if role != "master" {
		return fmt.Errorf("promoting %s (%s): it obeyed and is a %s all the same", replica.Name, replica.Addr, role)
	}
	replica.setFollow("")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.primary = replica
	return nil
}

// Role asks the server what it is: "master" or "slave".
func (n *Node) Role(ctx context.Context) (string, error) {
	answer, err := n.Client().Do(ctx, "ROLE").Slice()
	if err != nil {
		return "", fmt.Errorf("asking %s (%s) for its role: %w", n.Name, n.Addr, err)
	}
	role, _ := answer[0].(string)
	return role, nil
}

// syncKey is written and deleted to have something that replicas must acknowledge.
const syncKey = "lockstress-sync"

// WaitSync returns once all replicas have acknowledged all that the primary has
// written so far and say that their link is up. It needs their links to work.
func (t *Topology) WaitSync(ctx context.Context) error {
	primary, replicas := t.Primary(), t.Replicas()
	// WAIT speaks of what its own connection wrote.
	conn := primary.Client().Conn()
	defer conn.Close()
	if err := t.waitAcks(ctx, conn, len(replicas)); err != nil {
		return fmt.Errorf("waiting for %d replicas to be in sync with %s (%s): %w\n%s",
			len(replicas), primary.Name, primary.Addr, err, primary.Log())
	}
	return each(replicas, func(n *Node) error { return n.linkUp(ctx) })
}

func (t *Topology) waitAcks(ctx context.Context, conn *redis.Conn, replicas int) error {
	_, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, syncKey, "1", 0)
		p.Del(ctx, syncKey)
		return nil
	})
	if err != nil {
		return err
	}
	for {
		// The server asks its replicas once for an acknowledgement, as WAIT
		// begins, and blocks. One that connects later is asked by the next WAIT.
		n, err := conn.Wait(ctx, replicas, 20*time.Millisecond).Result()
		if err != nil || int(n) >= replicas {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d acknowledged: %w", n, err)
		}
	}
}

// linkUp says whether a replica thinks itself connected to its primary.
func (n *Node) linkUp(ctx context.Context) error {
	info, err := n.Client().InfoMap(ctx, "replication").Result()
	if err != nil {
		return fmt.Errorf("asking %s (%s) about its replication: %w", n.Name, n.Addr, err)
	}
	r := info["Replication"]
	if r["role"] != "slave" {
		return fmt.Errorf("%s (%s) is a %s, not a replica", n.Name, n.Addr, r["role"])
	}
	if r["master_link_status"] != "up" {
		return fmt.Errorf("the link of %s (%s) to its primary is %s", n.Name, n.Addr, r["master_link_status"])
	}
	if got, want := net.JoinHostPort(r["master_host"], r["master_port"]), n.follows(); want != "" && got != want {
		return fmt.Errorf("%s (%s) follows %s, not %s as it was told", n.Name, n.Addr, got, want)
	}
	return nil
}
