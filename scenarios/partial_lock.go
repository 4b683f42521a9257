package scenarios

import (
	"context"

	"lockstress/worker"
	"lockstress/workload"
)

// partialLookFirst: the lock covers the write, and not what it rests on.
func partialLookFirst() Scenario {
	return Scenario{
		Name:     "partial_lock/look_first",
		Summary:  "the resource is read before the lock is taken",
		Timeline: "A and B read; A acquires, writes and releases; B acquires, writes and releases",
		Extra:    true,
		Topology: plain,
		Skip:     noResource,
		Play:     playPartialLookFirst,
	}
}

// partialReleaseFirst: the lock covers what the write rests on, and not the write.
func partialReleaseFirst() Scenario {
	return Scenario{
		Name:     "partial_lock/release_first",
		Summary:  "the lock is given back before the write",
		Timeline: "A acquires, reads and releases; B acquires, reads, releases and writes; A writes",
		Extra:    true,
		Topology: plain,
		Skip:     noResource,
		Play:     playPartialReleaseFirst,
	}
}

// noResource is the reason why a scenario about the resource says nothing about a cell.
func noResource(c Cell) string {
	if c.Workload.Op == "" {
		return "the workload touches no resource"
	}
	return noLock(c)
}

func playPartialLookFirst(ctx context.Context, s Stage) error {
	order := once(s, 2*s.Cell().TTL)
	order.Partial = workload.LookFirst
	for i := range 2 {
		c := s.Client(i)
		if err := c.Order(order); err != nil {
			return err
		}
		if stop, err := c.To(ctx, workload.ReadDone); err != nil || stop.Done() {
			s.Miss("client %d could not read the resource: %q", i, stop.Work)
			return err
		}
	}
	s.Bite("two clients had read the resource before either had the lock")
	for i := range 2 {
		if _, err := s.Client(i).Finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

func playPartialReleaseFirst(ctx context.Context, s Stage) error {
	order := once(s, 2*s.Cell().TTL)
	order.Partial = workload.ReleaseFirst
	a, b := s.Client(0), s.Client(1)
	if err := a.Order(order); err != nil {
		return err
	}
	if stop, err := a.To(ctx, workload.BeforeWrite); err != nil || stop.Done() {
		s.Miss("client 0 did not get as far as the write: acquire answered %q", stop.Acquire)
		return err
	}
	if err := b.Order(order); err != nil {
		return err
	}
	stop, err := b.Finish(ctx)
	if err != nil {
		return err
	}
	if stop.Acquire == worker.Ended {
		s.Bite("client 1 had the lock while client 0, which had given it back, was about to write")
	} else {
		s.Miss("client 1 could not get a lock that had been given back: acquire answered %q", stop.Acquire)
	}
	_, err = a.Finish(ctx)
	return err
}
