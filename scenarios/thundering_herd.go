package scenarios

import (
	"context"
	"sync/atomic"
	"time"

	"lockstress/worker"

	"golang.org/x/sync/errgroup"
)

// herdFixed: all who wait come back at the same time.
func herdFixed() Scenario {
	return Scenario{
		Name:     "thundering_herd/fixed",
		Summary:  "many clients wait for one lock and try again after a fixed delay; compare with thundering_herd/jitter",
		Timeline: "N clients acquire, work for a while and release, for some time; whoever is refused tries again after a fixed delay",
		Extra:    true,
		Alone:    true,
		Crowd:    true,
		RetryMin: herdPause,
		RetryMax: herdPause,
		Topology: plain,
		Skip:     noLock,
		Play:     playHerd,
	}
}

// herdJitter is the same with pauses that are random, and as long on average.
func herdJitter() Scenario {
	s := herdFixed()
	s.Name = "thundering_herd/jitter"
	s.Summary = "many clients wait for one lock and try again after a random delay that is as long on average; compare with thundering_herd/fixed"
	s.Timeline = "N clients acquire, work for a while and release, for some time; whoever is refused tries again after a random delay"
	s.RetryMin, s.RetryMax = time.Millisecond, 2*herdPause-time.Millisecond
	return s
}

// starvation: does everybody get a turn?
func starvation() Scenario {
	return Scenario{
		Name:     "starvation",
		Summary:  "many clients compete for one lock for a while: how long does the unluckiest wait, and how even are the shares?",
		Timeline: "N clients acquire, work for a while and release, for some time",
		Extra:    true,
		Alone:    true,
		Crowd:    true,
		Topology: plain,
		Skip:     noLock,
		Play:     playHerd,
	}
}

const (
	// herdPause is the average pause between two attempts.
	herdPause = 10 * time.Millisecond
	// herdTime is for how long the clients compete.
	herdTime = 2 * time.Second
)

func playHerd(ctx context.Context, s Stage) error {
	const field = "total_commands_processed"
	before, err := sum(ctx, s, field)
	if err != nil {
		return err
	}
	order := worker.Order{For: herdTime, Wait: 20 * time.Second, Think: 2 * time.Millisecond}
	n := s.Cell().Clients
	for i := range n {
		if err := s.Client(i).Order(order); err != nil {
			return err
		}
	}
	meeting, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	if err := s.AwaitRefusal(meeting); err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.Miss("no server turned a client away: there was no herd")
	}
	var grants atomic.Int64
	var all errgroup.Group
	for i := range n {
		all.Go(func() error {
			stop, err := s.Client(i).Finish(ctx)
			grants.Add(int64(stop.Grants))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	after, err := sum(ctx, s, field)
	if err != nil {
		return err
	}
	s.Bite("%d clients competed for %v and acquired %d times; the servers executed %.1f commands per acquire, those within scripts included",
		n, herdTime, grants.Load(), float64(after-before)/float64(max(grants.Load(), 1)))
	return nil
}
