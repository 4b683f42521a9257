package runner

import (
	"context"

	"lockstress/faults/process"
	"lockstress/history"
)

const stopped = "process stopped"

func (s *stage) Pause(ctx context.Context, client int) error {
	w := s.actors[client].worker
	s.fault(w.Name, stopped)
	return process.Pause(ctx, w.Process)
}

func (s *stage) Resume(client int) error {
	w := s.actors[client].worker
	if err := process.Resume(w.Process); err != nil {
		return err
	}
	s.heal(w.Name, stopped)
	return nil
}

func (s *stage) Crash(ctx context.Context, client int) error {
	// What the servers did for it until now is to be told before it dies: a late
	// note could be taken for the doing of whoever comes next.
	if err := s.syncWitnesses(ctx); err != nil {
		return err
	}
	w := s.actors[client].worker
	for _, slot := range w.Config.Clients {
		s.notes.Record(&history.Event{
			Process: w.Config.Header.Process(slot, history.ClientRole, 0), Type: history.Note, Op: history.Dead,
		})
		s.actors[slot].busy, s.actors[slot].at = false, ""
	}
	s.fault(w.Name, "process killed")
	return process.Crash(w.Process)
}
