package scenarios

import (
	"context"
	"time"

	"lockstress/worker"
)

// gcPause: the holder's process stands still for longer than the TTL.
func gcPause() Scenario {
	return Scenario{
		Name:    "gc_pause",
		Summary: "the holder's process is stopped for twice the lock's TTL, just before it writes",
		Timeline: "A acquires, reads, and looks once more whether it still has the lock; its process is stopped for 2 T; " +
			"B acquires, reads, writes and releases; A goes on and writes",
		Faulty:   true,
		Topology: plain,
		Skip:     noLock,
		Play:     playGCPause,
	}
}

func playGCPause(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	b := s.Client(1)

	a, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	if err := s.Pause(ctx, 0); err != nil {
		return err
	}
	stopped := time.Now()

	if err := b.Order(once(s, 5*ttl)); err != nil {
		return err
	}
	// B does all it wants while A is stopped. To names no point, so it stops at
	// none; it may still be waiting for the lock when A comes back, after 2 T or as
	// soon as B is done, but after 4 T in any case.
	second, entered, err := toBy(ctx, stopped.Add(4*ttl), b)
	if err != nil {
		return err
	}
	if err := wait(ctx, stopped.Add(2*ttl)); err != nil {
		return err
	}
	pause := time.Since(stopped)
	if err := s.Resume(0); err != nil {
		return err
	}
	if entered && second.Acquire == worker.Ended {
		s.Bite("the process of client 0 was stopped for %d ms under hold %d, and client 1 had hold %d meanwhile",
			pause.Milliseconds(), held.Hold, second.Hold)
	} else {
		s.Bite("the process of client 0 was stopped for %d ms under hold %d; nobody else got in", pause.Milliseconds(), held.Hold)
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if !entered {
		_, err = b.Finish(ctx)
	}
	return err
}
