package scenarios

import (
	"context"
	"errors"
	"time"

	"lockstress/worker"

	"golang.org/x/sync/errgroup"
)

// contention: many clients, one key, no fault. The least that a lock must do, and
// where latencies are measured.
func contention() Scenario {
	return Scenario{
		Name:     "contention",
		Summary:  "many clients want one lock, and nothing goes wrong",
		Timeline: "N clients acquire, work and release until the stock is gone; the first holds on until a server has turned another away",
		Alone:    true,
		Crowd:    true,
		Topology: plain,
		Skip:     func(Cell) string { return "" },
		Play:     playContention,
	}
}

// meetingTime bounds how long the first holder waits for the others to come.
const meetingTime = 5 * time.Second

func playContention(ctx context.Context, s Stage) error {
	cell := s.Cell()
	order := worker.Order{Rounds: cell.Workload.CrowdRounds, Wait: 20 * time.Second, Think: time.Millisecond}
	first := order
	first.Stepped = true
	if !cell.Lock.Locks {
		return everybodyReads(ctx, s, first)
	}
	a := s.Client(0)
	if err := a.Order(first); err != nil {
		return err
	}
	if stop, err := a.To(ctx, lastLook(s)); err != nil || stop.Done() {
		s.Miss("client 0 could not get a lock that was free: acquire answered %q", stop.Acquire)
		return err
	}
	for i := 1; i < cell.Clients; i++ {
		if err := s.Client(i).Order(order); err != nil {
			return err
		}
	}
	meeting, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	switch err := s.AwaitRefusal(meeting); {
	case err == nil:
		s.Bite("a server turned a client away while client 0 held the lock")
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		s.Miss("nobody was turned away while client 0 held the lock: there was no contention")
	default:
		return err
	}
	return finishAll(ctx, s)
}

// everybodyReads makes all clients meet between their first read and write: without
// a lock, nothing keeps them apart.
func everybodyReads(ctx context.Context, s Stage, order worker.Order) error {
	n := s.Cell().Clients
	for i := range n {
		if err := s.Client(i).Order(order); err != nil {
			return err
		}
	}
	for i := range n {
		if stop, err := s.Client(i).To(ctx, lastLook(s)); err != nil || stop.Done() {
			s.Miss("client %d did not get as far as the write", i)
			return err
		}
	}
	s.Bite("%d clients stood between read and write at the same time", n)
	return finishAll(ctx, s)
}

func finishAll(ctx context.Context, s Stage) error {
	var all errgroup.Group
	for i := range s.Cell().Clients {
		all.Go(func() error {
			_, err := s.Client(i).Finish(ctx)
			return err
		})
	}
	return all.Wait()
}
