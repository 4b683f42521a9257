package runner

import (
	"context"

	"lockstress/worker"
)

// actor implements [scenarios.Client].
type actor struct {
	worker *worker.Remote
	slot   int
	// at is the sync point at which the client stands; "" if it is on its way
	// or has nothing to do.
	at   string
	busy bool
	last worker.Stop // of its last order, once that is done
}

func (a *actor) Order(o worker.Order) error {
	a.busy, a.at = true, ""
	return a.worker.Order(a.slot, o)
}

func (a *actor) To(ctx context.Context, points ...string) (worker.Stop, error) {
	for {
		if !a.busy {
			return a.last, nil
		}
		if a.at != "" {
			for _, p := range points {
				if a.at == p {
					return a.last, nil
				}
			}
			if err := a.Go(); err != nil {
				return worker.Stop{}, err
			}
		}
		if err := a.next(ctx); err != nil {
			return worker.Stop{}, err
		}
	}
}

// next waits until the client stands somewhere or is done.
func (a *actor) next(ctx context.Context) error {
	stop, err := a.worker.Next(ctx, a.slot)
	if err != nil {
		return err
	}
	a.last, a.at, a.busy = stop, stop.Point, !stop.Done()
	return nil
}

func (a *actor) Go() error {
	if a.at == "" {
		return nil
	}
	a.at = ""
	return a.worker.Go(a.slot)
}

func (a *actor) Finish(ctx context.Context) (worker.Stop, error) {
	for a.busy {
		if a.at != "" {
			a.at = ""
			if err := a.worker.Free(a.slot); err != nil {
				return worker.Stop{}, err
			}
		}
		if err := a.next(ctx); err != nil {
			return worker.Stop{}, err
		}
	}
	return a.last, nil
}
