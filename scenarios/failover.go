package scenarios

import (
	"context"
	"slices"
	"time"

	"lockstress/impls"
	"lockstress/worker"
)

// failoverPromote: the server that granted the lock dies before its replica has
// heard of it, and the replica is promoted by hand.
func failoverPromote() Scenario {
	return Scenario{
		Name:    "failover/promote",
		Summary: "the primary dies before its replica has heard of the lock, and the replica takes over",
		Timeline: "replication stalls; A acquires on the primary; the primary dies; the replica is promoted; B acquires. " +
			"For a quorum lock: one of the independent servers that granted A's lock dies; B tries",
		Faulty:   true,
		Proxied:  true,
		MinTTL:   3 * time.Second, // A's lease must outlast the failover
		Topology: replicatedOr(Replicated),
		Skip:     noFailover,
		Play: func(ctx context.Context, s Stage) error {
			if s.Cell().Lock.Topology == impls.Quorum {
				return playNodeLoss(ctx, s)
			}
			return playFailover(ctx, s, func(ctx context.Context) (string, error) { return s.Servers().Promote(ctx) })
		},
	}
}

// failoverSentinel is the same, decided by Sentinels and followed by the clients.
func failoverSentinel() Scenario {
	return Scenario{
		Name:    "failover/sentinel",
		Summary: "the same, decided by three Sentinels and followed by the clients through them",
		Timeline: "replication stalls; A acquires on the primary; the primary dies; the Sentinels notice, agree and promote the replica; " +
			"the clients follow; B acquires",
		Faulty:   true,
		Proxied:  true,
		MinTTL:   15 * time.Second,
		Topology: replicatedOr(Sentinel),
		Skip: func(c Cell) string {
			if c.Lock.Topology == impls.Quorum {
				return "a quorum lock uses independent servers, which Sentinels do not watch: see failover/promote"
			}
			return noFailover(c)
		},
		Play: func(ctx context.Context, s Stage) error {
			return playFailover(ctx, s, s.Servers().AwaitFailover)
		},
	}
}

// failoverWait: a lock that waits for replicas is not granted what they lack.
func failoverWait() Scenario {
	return Scenario{
		Name:    "failover/wait",
		Summary: "replication stalls, and a lock that waits for replicas must refuse and clean up",
		Timeline: "replication stalls; A asks, no replica acknowledges, and A is refused; its key must be gone from the primary; " +
			"replication goes on; B acquires and works",
		Faulty:   true,
		Proxied:  true,
		MinTTL:   3 * time.Second,
		Topology: replicatedOr(Replicated),
		Skip: func(c Cell) string {
			if !c.Lock.Replicas {
				return "it does not wait for replicas"
			}
			return ""
		},
		Play: playWait,
	}
}

func playWait(ctx context.Context, s Stage) error {
	servers := s.Servers()
	if err := servers.StallReplication(ctx); err != nil {
		return err
	}
	a, b := s.Client(0), s.Client(1)
	if err := a.Order(once(s, 0)); err != nil {
		return err
	}
	stop, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	holders, err := servers.Holders(ctx)
	if err != nil {
		return err
	}
	switch {
	case stop.Acquire == worker.Ended:
		s.Bite("client 0 was granted hold %d while no replica could acknowledge it", stop.Hold)
	case len(holders) == 0:
		s.Bite("no replica could acknowledge hold %d: acquire answered %q, and its key is gone", stop.Hold, stop.Acquire)
	default:
		s.Bite("no replica could acknowledge hold %d: acquire answered %q, but its key stayed on %v", stop.Hold, stop.Acquire, holders)
	}
	if err := servers.HealReplication(ctx); err != nil {
		return err
	}
	if err := b.Order(once(s, 2*s.Cell().TTL)); err != nil {
		return err
	}
	_, err = b.Finish(ctx)
	return err
}

// noFailover is why a failover says nothing about a lock; "" if it does.
func noFailover(c Cell) string {
	if c.Lock.Replicas {
		return "it refuses while replication is stalled: see failover/wait"
	}
	return noLock(c)
}

func replicatedOr(t Topology) func(impls.Info) Topology {
	return func(l impls.Info) Topology {
		if l.Topology == impls.Quorum {
			return Independent
		}
		return t
	}
}

func playFailover(ctx context.Context, s Stage, takeOver func(context.Context) (string, error)) error {
	servers := s.Servers()
	if err := servers.StallReplication(ctx); err != nil {
		return err
	}
	a, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	old := servers.Primary()
	holders, err := servers.Holders(ctx)
	if err != nil {
		return err
	}
	lacked := slices.Equal(holders, []string{old})
	if err := servers.Kill(ctx, old); err != nil {
		return err
	}
	// B wants the lock all the while, as clients do; it goes on trying through
	// refused connections and lost answers.
	b := s.Client(1)
	if err := b.Order(once(s, s.Cell().TTL)); err != nil {
		return err
	}
	fresh, err := takeOver(ctx)
	if err != nil {
		return err
	}
	if lacked {
		s.Bite("only %s had the key of hold %d when it died; %s, which took over, had never heard of it", old, held.Hold, fresh)
	} else {
		s.Miss("the key of hold %d was on %v, not on %s alone, when that died", held.Hold, holders, old)
	}
	if _, err := b.To(ctx, lastLook(s)); err != nil {
		return err
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	_, err = b.Finish(ctx)
	return err
}

func playNodeLoss(ctx context.Context, s Stage) error {
	servers := s.Servers()
	a, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	holders, err := servers.Holders(ctx)
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		s.Miss("no server has the key of hold %d", held.Hold)
		_, err := a.Finish(ctx)
		return err
	}
	if err := servers.Kill(ctx, holders[0]); err != nil {
		return err
	}
	s.Bite("%s, one of the %d servers with the key of hold %d, died", holders[0], len(holders), held.Hold)
	b := s.Client(1)
	// Some tries, all over before A's lease is.
	if err := b.Order(once(s, s.Cell().TTL/10)); err != nil {
		return err
	}
	if _, err := b.To(ctx, lastLook(s)); err != nil {
		return err
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if _, err := b.Finish(ctx); err != nil {
		return err
	}
	// Afterwards the lock must still be there for others.
	c := s.Client(2)
	if err := c.Order(once(s, s.Cell().TTL)); err != nil {
		return err
	}
	_, err = c.Finish(ctx)
	return err
}
