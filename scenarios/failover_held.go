package scenarios

import (
	"context"
	"fmt"
	"time"

	"lockstress/impls"
	"lockstress/worker"
	"lockstress/workload"
)

// failoverMidHold: roles are swapped in good order while the lock is held.
func failoverMidHold() Scenario {
	return Scenario{
		Name:    "failover/mid-hold",
		Summary: "primary and replica swap roles in good order while the lock is held, and the holder releases against the old primary",
		Timeline: "A acquires and works, and the replica has its key; the replica becomes the primary and the old primary its replica; " +
			"A releases against the old one, which is read-only now; A follows to the new primary and acquires again there, once its old key has expired",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		MinTTL:   leaseForSwap,
		Topology: replicatedOr(Replicated),
		Skip:     onePrimary,
		Play:     playMidHold,
	}
}

// leaseForSwap outlasts a swap of roles with two synchronizations, each of which may
// wait for a timer of the servers that ticks once a second.
const leaseForSwap = 2500 * time.Millisecond

// failoverIsolated: two primaries at the same time.
func failoverIsolated() Scenario {
	return Scenario{
		Name:    "failover/isolated",
		Summary: "the old primary goes on serving those on its side of a partition while the other side has a new one",
		Timeline: "replication is cut, and A is on the side of the old primary; it acquires there; the replica is promoted; B acquires there; " +
			"the partition heals and the old primary follows the new one: what it had accepted is gone; both write and release",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		MinTTL:   leaseForFilling,
		Topology: replicatedOr(Replicated),
		Skip: func(c Cell) string {
			if c.Lock.Replicas {
				return "it refuses while replication is cut: see failover/wait"
			}
			return onePrimary(c)
		},
		Play: playIsolated,
	}
}

// onePrimary is why roles of servers say nothing about a lock; "" if they do.
func onePrimary(c Cell) string {
	if c.Lock.Topology == impls.Quorum {
		return "its servers have no replicas"
	}
	return noLock(c)
}

func playMidHold(ctx context.Context, s Stage) error {
	servers := s.Servers()
	a, held, ok, err := enter(ctx, s, workload.BeforeRelease)
	if err != nil || !ok {
		return err
	}
	if err := servers.AwaitReplication(ctx); err != nil {
		return err
	}
	old := servers.Primary()
	fresh, err := servers.Promote(ctx, everybody(s)...)
	if err != nil {
		return err
	}
	if err := servers.Demote(ctx, old); err != nil {
		return err
	}
	// While it loads what the new primary has, it answers LOADING to everything.
	if err := servers.AwaitReplication(ctx); err != nil {
		return err
	}
	before, err := servers.Info(ctx, old, "errorstat_READONLY")
	if err != nil {
		return err
	}
	stop, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	after, err := servers.Info(ctx, old, "errorstat_READONLY")
	if err != nil {
		return err
	}
	if after == before {
		s.Miss("%s was not asked to release hold %d while it was read-only", old, held.Hold)
	}
	for _, client := range everybody(s) {
		if err := servers.Follow(client); err != nil {
			return err
		}
	}
	if err := servers.AwaitReplication(ctx); err != nil {
		return err
	}
	again, err := inherit(ctx, s, 0)
	if err != nil {
		return err
	}
	s.Bite("%s answered READONLY to the release of hold %d, and the lock %q; client 0 followed to %s and acquired there: %v",
		old, held.Hold, stop.Release, fresh, again.client == 0)
	return nil
}

func everybody(s Stage) []int {
	var all []int
	for i := range s.Cell().Clients {
		all = append(all, i)
	}
	return all
}

func playIsolated(ctx context.Context, s Stage) error {
	servers := s.Servers()
	if err := servers.StallReplication(ctx); err != nil {
		return err
	}
	a, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	old := servers.Primary()
	fresh, err := servers.Promote(ctx, 0)
	if err != nil {
		return err
	}
	b := s.Client(1)
	if err := b.Order(once(s, s.Cell().TTL/10)); err != nil {
		return err
	}
	second, err := b.To(ctx, lastLook(s))
	if err != nil {
		return err
	}
	mine, err := servers.Stored(ctx, old)
	if err != nil {
		return err
	}
	if err := servers.Demote(ctx, old); err != nil {
		return err
	}
	if err := servers.AwaitReplication(ctx); err != nil {
		return err
	}
	left, err := servers.Stored(ctx, old)
	if err != nil {
		return err
	}
	gone := "has what that has"
	if left != mine {
		gone = "has lost what it had accepted"
	}
	if second.Acquire == worker.Ended || !second.Done() {
		gone += fmt.Sprintf("; client 1 was granted hold %d by %s meanwhile", second.Hold, fresh)
	}
	s.Bite("%s had granted hold %d on its side of the partition; now that it follows %s it %s", old, held.Hold, fresh, gone)
	if err := servers.Follow(0); err != nil {
		return err
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	_, err = b.Finish(ctx)
	return err
}
