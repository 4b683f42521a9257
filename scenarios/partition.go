package scenarios

import (
	"context"
	"time"

	"lockstress/workload"
)

// partitionMinority: nobody reaches two of five servers.
func partitionMinority() Scenario {
	return Scenario{
		Name:     "partition/minority",
		Summary:  "two of five servers are unreachable for everybody, and a quorum lock goes on",
		Timeline: "two servers become unreachable; A acquires, works and releases; B likewise",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip:     notQuorum,
		Play:     playPartitionMinority,
	}
}

// partitionMajority: nobody reaches three of five servers.
func partitionMajority() Scenario {
	return Scenario{
		Name:    "partition/majority",
		Summary: "three of five servers are unreachable for everybody, and a quorum lock must refuse and clean up",
		Timeline: "three servers become unreachable; A tries and is refused, and what it took of the other two must be free again; " +
			"the servers come back; B acquires and works",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip:     notQuorum,
		Play:     playPartitionMajority,
	}
}

// partitionHolder: the holder is cut off from the lock's servers.
func partitionHolder() Scenario {
	return Scenario{
		Name:    "partition/holder",
		Summary: "the holder is cut off from the lock's servers and cannot give the lock back",
		Timeline: "A acquires and does its work; it is cut off; it releases, in vain; B, who wants the lock all the while, gets it once " +
			"A's key has expired – or never, and C neither, if it does not expire",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip:     noLock,
		Play:     playPartitionHolder,
	}
}

// lose makes servers unreachable for all clients.
func lose(s Stage, nodes ...string) error {
	for i := range s.Cell().Clients {
		if err := s.Lose(i, nodes...); err != nil {
			return err
		}
	}
	return nil
}

func playPartitionMinority(ctx context.Context, s Stage) error {
	names := s.Servers().Names()
	lost := names[len(names)-len(names)/2:]
	if err := lose(s, lost...); err != nil {
		return err
	}
	a, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	s.Bite("%v were unreachable; client 0 was granted hold %d all the same, by %v", lost, held.Hold, holders)
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	b := s.Client(1)
	if err := b.Order(once(s, 2*s.Cell().TTL)); err != nil {
		return err
	}
	_, err = b.Finish(ctx)
	return err
}

func playPartitionMajority(ctx context.Context, s Stage) error {
	names := s.Servers().Names()
	lost := names[len(names)/2:]
	if err := lose(s, lost...); err != nil {
		return err
	}
	a, b := s.Client(0), s.Client(1)
	if err := a.Order(once(s, s.Cell().TTL/2)); err != nil {
		return err
	}
	stop, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	s.Bite("%v were unreachable; the acquire of client 0 was answered %q; its key is on %d servers afterwards", lost, stop.Acquire, len(holders))
	for i := range s.Cell().Clients {
		if err := s.Heal(i, lost...); err != nil {
			return err
		}
	}
	if err := b.Order(once(s, 2*s.Cell().TTL)); err != nil {
		return err
	}
	_, err = b.Finish(ctx)
	return err
}

func playPartitionHolder(ctx context.Context, s Stage) error {
	a, held, ok, err := enter(ctx, s, workload.BeforeRelease)
	if err != nil || !ok {
		return err
	}
	if err := s.Cut(0); err != nil {
		return err
	}
	stop, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	gone := time.Now()
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		s.Miss("the release of hold %d went through: no server has its key", held.Hold)
		return nil
	}
	heir, err := inherit(ctx, s, 1)
	if err != nil {
		return err
	}
	s.Bite("client 0 was cut off and its release of hold %d was answered %q; %v had its key; %s", held.Hold, stop.Release, holders, heir.since(gone))
	return nil
}
