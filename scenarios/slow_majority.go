package scenarios

import (
	"context"
	"time"

	"lockstress/worker"
)

// slowMajority: a majority of the servers answers when the lease would be over.
func slowMajority() Scenario {
	return Scenario{
		Name:    "slow_majority",
		Summary: "the answers of three of five servers take longer than the TTL: the acquire must be refused and everything freed",
		Timeline: "A asks; all servers set its key, but the answers of three are held in the network; A must be refused and free all five; " +
			"after T the answers arrive; B acquires and works",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip:     notQuorum,
		Play:     playSlowMajority,
	}
}

func playSlowMajority(ctx context.Context, s Stage) error {
	if ok, err := warmUp(ctx, s); err != nil || !ok {
		return err
	}
	names := s.Servers().Names()
	slow := names[len(names)/2:]
	answers, err := s.Hold(ctx, Traffic{Client: 0, Nodes: slow, Commands: taking(s), Replies: true, What: "the answers of a majority to client 0's acquire"})
	if err != nil {
		return err
	}
	asked := time.Now()
	a, b := s.Client(0), s.Client(1)
	if err := a.Order(once(s, 0)); err != nil {
		return err
	}
	stop, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	answered := time.Since(asked)
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	if err := wait(ctx, asked.Add(s.Cell().TTL)); err != nil {
		return err
	}
	if err := answers.Release(ctx); err != nil {
		return err
	}
	if stop.Acquire == worker.Ended {
		s.Bite("client 0 was granted hold %d without the answers of %v", stop.Hold, slow)
	} else {
		s.Bite("the answers of %v took %d ms; acquire answered %q after %d ms, and left its key on %d servers",
			slow, time.Since(asked).Milliseconds(), stop.Acquire, answered.Milliseconds(), len(holders))
	}
	if err := b.Order(once(s, 2*s.Cell().TTL)); err != nil {
		return err
	}
	_, err = b.Finish(ctx)
	return err
}
