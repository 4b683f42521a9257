package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// watch listens to what the Sentinels announce, from the start of the topology to
// its end, so that no failover is missed.
type watch struct {
	topology  *Topology
	sentinels []*sentinelClient
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu       sync.Mutex
	switched chan struct{} // closed and renewed whenever there is a new primary
}

type sentinelClient struct {
	*sentinelNode
	client *redis.Client
	events *redis.PubSub
}

func newWatch(t *Topology, group []*sentinelNode) *watch {
	w := &watch{topology: t, switched: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for _, s := range group {
		w.sentinels = append(w.sentinels, &sentinelClient{sentinelNode: s, client: dial(s.addr)})
	}
	return w
}

// subscribe returns once all subscriptions stand.
func (w *watch) subscribe(ctx context.Context) error {
	for _, s := range w.sentinels {
		s.events = s.client.Subscribe(w.ctx, "+switch-master", "+sdown", "-sdown")
		if _, err := s.events.Receive(ctx); err != nil {
			return fmt.Errorf("subscribing to sentinel %s (%s): %w", s.name, s.addr, err)
		}
		w.wg.Go(func() {
			for m := range s.events.Channel() {
				w.hear(s, m.Channel, strings.Fields(m.Payload))
			}
		})
	}
	return nil
}

// hear handles one announcement. For a change of the primary it has the fields
// name, old host, old port, new host, new port; else the kind of the instance first.
func (w *watch) hear(s *sentinelClient, event string, f []string) {
	switch {
	case event == "+switch-master" && len(f) == 5:
		w.topology.switchTo(net.JoinHostPort(f[3], f[4]))
		w.mu.Lock()
		close(w.switched)
		w.switched = make(chan struct{})
		w.mu.Unlock()
	case len(f) < 2 || f[0] != "master":
	case event == "+sdown":
		w.setTimeout(s, downTimeout)
	case event == "-sdown":
		w.setTimeout(s, calmTimeout)
	}
}

// setTimeout may fail, with the Sentinel dead: then another one decides.
func (w *watch) setTimeout(s *sentinelClient, d time.Duration) {
	s.client.Do(w.ctx, "SENTINEL", "SET", MasterName, "failover-timeout", d.Milliseconds())
}

// switchTo takes note of the primary that the Sentinels have chosen. They make the
// other replicas follow its announced address. What becomes of the old primary is
// open: if it is dead it will not know that it was replaced.
func (t *Topology) switchTo(addr string) {
	now, old := t.NodeAt(addr), t.Primary()
	if now == nil || now == old {
		return // the other Sentinels say so too
	}
	for _, n := range t.nodes {
		switch n {
		case now, old:
			n.setFollow("")
		default:
			n.setFollow(addr)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.primary = now
}

// changed returns a channel that is closed at the next change of the primary.
func (w *watch) changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.switched
}

// WaitFailover returns the new primary as soon as a Sentinel announces that it has
// replaced old. It may be called before or after that happens.
func (t *Topology) WaitFailover(ctx context.Context, old *Node) (*Node, error) {
	if t.watch == nil {
		return nil, fmt.Errorf("waiting for a failover from %s: a %s topology has no Sentinels", old.Name, t.Spec.Kind)
	}
	for {
		changed := t.watch.changed()
		if now := t.Primary(); now != old {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the Sentinels to replace %s: %w\n%s", old.Name, context.Cause(ctx), t.watch.log())
		}
	}
}

// waitKnown returns once every Sentinel knows everybody. Sentinels do not announce
// that, so they are asked until they do.
func (w *watch) waitKnown(ctx context.Context) error {
	// They start together, so some find others not listening yet, and try again
	// after their ping period only. Servers before 7.0 have no such command, and
	// take a second longer.
	w.setPingPeriod(ctx, 50*time.Millisecond)
	defer w.setPingPeriod(ctx, time.Second) // the server's default
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := w.knownToAll(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the Sentinels to know everybody: %w\n%s", err, w.log())
		}
	}
}

func (w *watch) knownToAll(ctx context.Context) error {
	return each(w.sentinels, func(s *sentinelClient) error { return w.known(ctx, s) })
}

func (w *watch) setPingPeriod(ctx context.Context, d time.Duration) {
	for _, s := range w.sentinels {
		s.client.Do(ctx, "SENTINEL", "DEBUG", "ping-period", d.Milliseconds())
	}
}

// log returns the last lines that the Sentinels wrote.
func (w *watch) log() string {
	var b strings.Builder
	for _, s := range w.sentinels {
		fmt.Fprintf(&b, "  sentinel %s (%s):\n%s\n", s.name, s.addr, s.server.log)
	}
	return b.String()
}

func (w *watch) close() error {
	w.cancel()
	var errs []error
	for _, s := range w.sentinels {
		if s.events != nil {
			errs = append(errs, s.events.Close())
		}
	}
	w.wg.Wait()
	for _, s := range w.sentinels {
		errs = append(errs, s.client.Close(), w.topology.endSentinel(s.sentinelNode))
	}
	return errors.Join(errs...)
}
