package scenarios

import (
	"context"
	"fmt"
	"time"

	"lockstress/worker"
	"lockstress/workload"
)

// reentry: a holder asks for the lock that it holds.
func reentry() Scenario {
	return Scenario{
		Name:    "reentry",
		Summary: "a holder acquires the lock once more, as a function does that calls another that locks too",
		Timeline: "A acquires, and asks for the lock again for half of T; if it is let in it works, gives the inner hold back, and B tries: the outer hold must keep it out; " +
			"A gives the outer hold back; C acquires",
		Faulty:   true,
		Extra:    true,
		Topology: plain,
		Skip:     noLock,
		Play:     playReentry,
	}
}

func playReentry(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	a := s.Client(0)
	order := once(s, 2*ttl)
	// It would wait until its own key expires. When that is to the millisecond is the
	// servers' affair; that it gets nowhere shows sooner.
	order.Reenter = ttl / 2
	if err := a.Order(order); err != nil {
		return err
	}
	if stop, err := a.To(ctx, workload.Acquired); err != nil || stop.Done() {
		s.Miss("client 0 could not get a lock that was free: acquire answered %q", stop.Acquire)
		return err
	}
	asked := time.Now()
	if _, err := a.To(ctx, workload.Reentered); err != nil {
		return err
	}
	took := time.Since(asked)
	stop, err := a.To(ctx, workload.Left, workload.BeforeRelease)
	if err != nil {
		return err
	}
	kept := ""
	if stop.Point == workload.Left {
		early, err := tryFor(ctx, s, 1, ttl/10)
		if err != nil {
			return err
		}
		kept = "; before it gave the outer hold back nobody else got the lock"
		if early.client >= 0 {
			kept = "; before it gave the outer hold back client 1 got the lock"
		}
	}
	end, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	inner := fmt.Sprintf("was answered %q", end.Again)
	if end.Again == worker.Ended {
		inner = "was let in"
	}
	s.Bite("client 0 asked for the lock that it held, and %s after %d ms%s", inner, took.Milliseconds(), kept)
	_, err = tryFor(ctx, s, 2, 2*ttl)
	return err
}
