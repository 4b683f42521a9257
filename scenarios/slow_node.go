package scenarios

import (
	"context"
	"slices"
	"time"

	"lockstress/worker"
)

// slowNode: one server of a quorum lock answers after seconds.
func slowNode() Scenario {
	return Scenario{
		Name:     "slow_node",
		Summary:  "one of five servers answers after two seconds, and a quorum lock must not wait for it",
		Timeline: "A acquires and releases some times; one server becomes slow; A does it as often again",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Alone:    true,
		Topology: plain,
		Skip:     notQuorum,
		Play:     playSlowNode,
	}
}

const (
	// oneWay is how long a slow link takes in each direction.
	oneWay = time.Second
	// slowRounds is how often A acquires with the slow server, and without.
	slowRounds = 10
)

func playSlowNode(ctx context.Context, s Stage) error {
	before, err := acquireTimes(ctx, s)
	if err != nil {
		return err
	}
	names := s.Servers().Names()
	slow := names[len(names)-1]
	if err := s.Slow(0, oneWay, slow); err != nil {
		return err
	}
	after, err := acquireTimes(ctx, s)
	if err != nil {
		return err
	}
	if len(before) < slowRounds || len(after) < slowRounds {
		s.Miss("client 0 got the lock %d times of %d before and %d times with %s slow", len(before), slowRounds, len(after), slow)
		return nil
	}
	s.Bite("%s answered after %v; acquire took at most %.1f ms with it (n=%d), and %.1f ms before (n=%d)",
		slow, 2*oneWay, milliseconds(slices.Max(after)), len(after), milliseconds(slices.Max(before)), len(before))
	return nil
}

// acquireTimes has A take the lock and give it back, and returns how long each acquire
// that was granted took.
func acquireTimes(ctx context.Context, s Stage) ([]time.Duration, error) {
	a := s.Client(0)
	var took []time.Duration
	for range slowRounds {
		if err := a.Order(worker.Order{Rounds: 1, Wait: 2 * s.Cell().TTL, Idle: true}); err != nil {
			return nil, err
		}
		stop, err := a.Finish(ctx)
		if err != nil {
			return nil, err
		}
		if stop.Acquire == worker.Ended {
			took = append(took, stop.Took)
		}
	}
	return took, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
