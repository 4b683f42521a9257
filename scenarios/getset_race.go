package scenarios

import (
	"context"
	"fmt"
	"time"

	"lockstress/workload"
)

// getsetRace: two clients take over a lock whose time is up.
func getsetRace() Scenario {
	return Scenario{
		Name:    "getset_race",
		Summary: "two clients take over an expired lock at once: one wins, but the other's expiry time is stored",
		Timeline: "A acquires and dies; its time is up; B and C read the old value and send GETSET, held in the network; B's is executed, " +
			"then C's; B has the lock, but what is stored is C's",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip: func(c Cell) string {
			if c.Lock.Name != "getset" {
				return "it does not take over by GETSET"
			}
			return ""
		},
		Play: playGetsetRace,
	}
}

func playGetsetRace(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	_, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	if err := s.Crash(ctx, 0); err != nil {
		return err
	}
	node := s.Servers().Primary()
	old, err := s.Servers().Stored(ctx, node)
	if err != nil {
		return err
	}
	// The stored time has whole milliseconds, and must be past, not present.
	if err := wait(ctx, time.Now().Add(ttl+5*time.Millisecond)); err != nil {
		return err
	}
	meeting, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	var takeOvers []Held
	for client := 1; client <= 2; client++ {
		h, err := s.Hold(ctx, Traffic{Client: client, Commands: []string{"GETSET"}, What: fmt.Sprintf("the GETSET of client %d", client)})
		if err != nil {
			return err
		}
		takeOvers = append(takeOvers, h)
		if err := s.Client(client).Order(once(s, 0)); err != nil {
			return err
		}
		if err := h.Wait(meeting, 1); err != nil {
			return err
		}
		// The next one stores another millisecond.
		if err := wait(ctx, time.Now().Add(2*time.Millisecond)); err != nil {
			return err
		}
	}
	if err := takeOvers[0].Step(ctx); err != nil {
		return err
	}
	winners, err := s.Servers().Stored(ctx, node)
	if err != nil {
		return err
	}
	if err := takeOvers[1].Step(ctx); err != nil {
		return err
	}
	losers, err := s.Servers().Stored(ctx, node)
	if err != nil {
		return err
	}
	for _, h := range takeOvers {
		if err := h.Release(ctx); err != nil {
			return err
		}
	}
	b, c := s.Client(1), s.Client(2)
	first, err := b.To(ctx, workload.Acquired)
	if err != nil {
		return err
	}
	second, err := c.To(ctx, workload.Acquired)
	if err != nil {
		return err
	}
	switch {
	case first.Done() || !second.Done():
		s.Miss("client 1 was to win and client 2 to lose: their acquires answered %q and %q", first.Acquire, second.Acquire)
	case winners == losers:
		s.Miss("both clients stored the same time, %s", winners)
	default:
		s.Bite("both read %s, of hold %d, whose time was up; client 1 won with %s and was granted hold %d; client 2 was answered %q, and its %s is what is stored",
			old, held.Hold, winners, first.Hold, second.Acquire, losers)
	}
	if _, err := b.Finish(ctx); err != nil {
		return err
	}
	_, err = c.Finish(ctx)
	return err
}
