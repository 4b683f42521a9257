package scenarios

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// splitVote: three clients want an idle lock, and each is first at other servers.
func splitVote() Scenario {
	return Scenario{
		Name:    "split_vote",
		Summary: "three clients are each first at other servers, so none has a majority: all must give up and try again",
		Timeline: "A, B and C ask at once; A's requests come first at two servers, B's at two others, C's at the fifth; the rest of their " +
			"requests arrives; nobody has a majority; all free what they took and try again after a random pause",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		MinTTL:   10 * time.Second, // servers are waited for a twentieth of it: time to see the vote split
		Topology: plain,
		Skip:     notQuorum,
		Play:     playSplitVote,
	}
}

func playSplitVote(ctx context.Context, s Stage) error {
	names := s.Servers().Names()
	first := [][]string{names[:2], names[2:4], names[4:]}
	var late []Held
	for i, own := range first {
		var others []string
		for j, nodes := range first {
			if i != j {
				others = append(others, nodes...)
			}
		}
		held, err := s.Hold(ctx, Traffic{Client: i, Nodes: others, Commands: taking(s), What: fmt.Sprintf("the requests of client %d to all but %v", i, own)})
		if err != nil {
			return err
		}
		late = append(late, held)
	}
	asked := time.Now()
	for i := range first {
		if err := s.Client(i).Order(once(s, s.Cell().TTL)); err != nil {
			return err
		}
	}
	meeting, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	for _, held := range late {
		if err := held.Wait(meeting, 1); err != nil {
			return err
		}
	}
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	var all errgroup.Group
	for _, held := range late {
		all.Go(func() error { return held.Release(ctx) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	won := make(chan time.Time, len(first))
	for i := range first {
		all.Go(func() error {
			c := s.Client(i)
			stop, err := c.To(ctx, inside(s))
			if err == nil && !stop.Done() {
				won <- time.Now()
			}
			if err == nil {
				_, err = c.Finish(ctx)
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	switch {
	case len(holders) < len(names):
		s.Miss("only %v had a key when the rest of the requests was let through: the vote was not split", holders)
	case len(won) == 0:
		s.Bite("all %d servers had a key, and no client of %d a majority; nobody won in %v", len(names), len(first), s.Cell().TTL)
	default:
		s.Bite("all %d servers had a key, and no client of %d a majority; the first won %d ms after they had asked, and %d in the end",
			len(names), len(first), (<-won).Sub(asked).Milliseconds(), len(won)+1)
	}
	return nil
}
