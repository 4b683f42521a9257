package scenarios

import (
	"context"
	"fmt"
	"time"

	"lockstress/worker"
	"lockstress/workload"
)

// gcPauseAcquiring: a client stands still between asking for the lock and reading
// that it got it.
func gcPauseAcquiring() Scenario {
	return Scenario{
		Name:    "gc_pause/acquiring",
		Summary: "a client is stopped while the answer to its acquire is on its way, until the lease that it grants is over",
		Timeline: "C takes the lock and gives it back; A asks for the lock and its process is stopped; the servers' answers come and lie in its " +
			"sockets; A's keys expire; B acquires; A goes on and reads its answers while B has the lock",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip: func(c Cell) string {
			if 4*c.TTL >= worker.IOTimeout {
				return fmt.Sprintf("the pause would be longer than the %v for which a client waits for an answer", worker.IOTimeout)
			}
			return noLock(c)
		},
		Play: playGCPauseAcquiring,
	}
}

func playGCPauseAcquiring(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	a, b := s.Client(0), s.Client(1)
	if ok, err := warmUp(ctx, s); err != nil || !ok {
		return err
	}
	if caught, err := stopAsking(ctx, s); err != nil || !caught {
		return err
	}
	stopped := time.Now()
	if err := b.Order(once(s, 5*ttl)); err != nil {
		return err
	}
	second, entered, err := toBy(ctx, stopped.Add(3*ttl), b, inside(s))
	if err != nil {
		return err
	}
	pause := time.Since(stopped)
	if err := s.Resume(0); err != nil {
		return err
	}
	// What A makes of its answers is seen before B does anything.
	first, err := a.To(ctx, workload.Acquired)
	if err != nil {
		return err
	}
	others := "nobody else had got in"
	if entered && !second.Done() {
		others = fmt.Sprintf("client 1 had hold %d", second.Hold)
	}
	if first.Done() {
		s.Bite("client 0 read after %d ms what the servers had answered; %s; its lock told it: %s", pause.Milliseconds(), others, first.Acquire)
	} else {
		s.Bite("client 0 read after %d ms that it had been granted hold %d, and believed it; %s", pause.Milliseconds(), first.Hold, others)
	}
	if entered {
		if _, err := b.Finish(ctx); err != nil {
			return err
		}
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	_, err = b.Finish(ctx)
	return err
}

// askings bounds how often A is made to ask: a quorum lock gives up on servers so
// soon that on a busy machine it may have done so before it is stopped.
const askings = 8

// stopAsking has A ask for the lock and stops its process when the servers have
// executed its commands and it has read no answer. The answers lie in its sockets
// when stopAsking returns.
func stopAsking(ctx context.Context, s Stage) (bool, error) {
	a := s.Client(0)
	for range askings {
		replies, err := s.Hold(ctx, Traffic{Client: 0, Commands: taking(s), Replies: true, What: "the answers to client 0's acquire"})
		if err != nil {
			return false, err
		}
		if err := a.Order(once(s, 0)); err != nil {
			return false, err
		}
		meeting, cancel := context.WithTimeout(ctx, s.Cell().TTL)
		err = replies.Wait(meeting, 1)
		cancel()
		if ctx.Err() != nil {
			return false, err
		}
		if err := s.Pause(ctx, 0); err != nil {
			return false, err
		}
		n, err := replies.Count(ctx)
		if err != nil {
			return false, err
		}
		if err := replies.Release(ctx); err != nil {
			return false, err
		}
		if n > 0 {
			return true, nil
		}
		if err := s.Resume(0); err != nil {
			return false, err
		}
		if _, err := a.Finish(ctx); err != nil {
			return false, err
		}
	}
	s.Miss("client 0 could not be stopped in %d tries before it had read its answers or given up", askings)
	return false, nil
}
