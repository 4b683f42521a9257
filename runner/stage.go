package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstress/faults/network"
	"lockstress/faults/process"
	"lockstress/history"
	"lockstress/scenarios"
	"lockstress/topology"
	"lockstress/worker"

	"golang.org/x/sync/errgroup"
)

// stage implements [scenarios.Stage] with real processes, servers and links.
type stage struct {
	cell    *Cell
	notes   *history.Recorder // the coordinator's own journal
	actors  []*actor          // by client slot
	servers *topology.Topology
	key     string
	// links[worker][node] from each worker to each of the lock's servers; nil if
	// the scenario needs none.
	links   []map[string]*network.Link
	refused chan struct{} // closed at the first refusal that a witness saw
	refuse  sync.Once
	// dirty: a server was killed or promoted, so the topology cannot be used again.
	dirty bool
}

func (s *stage) Cell() scenarios.Cell                { return s.cell.Cell }
func (s *stage) Client(i int) scenarios.Client       { return s.actors[i] }
func (s *stage) Servers() scenarios.Servers          { return s }
func (s *stage) Bite(format string, args ...any)     { s.note(history.Bite, "", format, args...) }
func (s *stage) Miss(format string, args ...any)     { s.note(history.Miss, "", format, args...) }
func (s *stage) fault(node, format string, a ...any) { s.note(history.Fault, node, format, a...) }
func (s *stage) heal(node, format string, a ...any)  { s.note(history.Heal, node, format, a...) }

func (s *stage) note(op history.Op, node, format string, args ...any) {
	// A journal that fails makes the trial fail when it is closed.
	s.notes.Record(&history.Event{
		Process: history.Nemesis, Type: history.Note, Op: op, Node: node, Text: fmt.Sprintf(format, args...),
	})
}

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

func (s *stage) AwaitRefusal(ctx context.Context) error {
	select {
	case <-s.refused:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sawRefusal is told by the witnesses.
func (s *stage) sawRefusal() { s.refuse.Do(func() { close(s.refused) }) }

// held are the holds of one client on its links to all servers.
type held struct {
	stage *stage
	text  string
	node  string
	holds []*network.Hold
}

func (s *stage) Hold(ctx context.Context, client int, commands ...string) (scenarios.Held, error) {
	w := s.actors[client].worker
	h := &held{stage: s, text: "releasing commands held in the network", node: w.Name}
	for _, link := range s.links[w.Config.Worker] {
		hold, err := link.Hold(ctx, network.HoldSpec{Commands: commands})
		if err != nil {
			return nil, err
		}
		h.holds = append(h.holds, hold)
	}
	s.fault(h.node, "%s", h.text)
	return h, nil
}

// Wait returns once n commands are held on every link: a quorum lock sends to all
// of its servers.
func (h *held) Wait(ctx context.Context, n int) error {
	var all errgroup.Group
	for _, hold := range h.holds {
		all.Go(func() error { return hold.Wait(ctx, n) })
	}
	return all.Wait()
}

func (h *held) Release(ctx context.Context) error {
	var errs []error
	for _, hold := range h.holds {
		errs = append(errs, hold.Release(ctx))
	}
	h.stage.heal(h.node, "%s", h.text)
	return errors.Join(errs...)
}

func (s *stage) Primary() string { return s.servers.Primary().Name }

func (s *stage) Holders(ctx context.Context) ([]string, error) {
	var names []string
	for _, n := range s.servers.Nodes() {
		if !n.Alive() {
			continue
		}
		there, err := n.Client().Exists(ctx, s.key).Result()
		if err != nil {
			return nil, fmt.Errorf("asking %s (%s) for the lock's key: %w", n.Name, n.Addr, err)
		}
		if there > 0 {
			names = append(names, n.Name)
		}
	}
	return names, nil
}

func (s *stage) StallReplication(ctx context.Context) error {
	s.dirty = true
	primary := s.servers.Primary()
	for _, r := range s.servers.Replicas() {
		link, ok := s.servers.Link(r.Name, primary.Name).(*network.Link)
		if !ok {
			return fmt.Errorf("there is no link from %s to %s that could be cut", r.Name, primary.Name)
		}
		if err := link.Blackhole(); err != nil {
			return err
		}
		s.fault(r.Name, "replication from %s stalled", primary.Name)
	}
	return nil
}

func (s *stage) HealReplication(ctx context.Context) error {
	primary := s.servers.Primary()
	for _, r := range s.servers.Replicas() {
		link, ok := s.servers.Link(r.Name, primary.Name).(*network.Link)
		if !ok {
			return fmt.Errorf("there is no link from %s to %s to heal", r.Name, primary.Name)
		}
		if err := link.Heal(); err != nil {
			return err
		}
		s.heal(r.Name, "replication from %s stalled", primary.Name)
	}
	return s.servers.WaitSync(ctx)
}

func (s *stage) Kill(ctx context.Context, node string) error {
	s.dirty = true
	n := s.servers.Node(node)
	if n == nil {
		return fmt.Errorf("there is no server %s to kill", node)
	}
	s.fault(node, "server killed")
	return n.Kill()
}

func (s *stage) Promote(ctx context.Context) (string, error) {
	s.dirty = true
	old, fresh := s.servers.Primary(), s.servers.Replicas()[0]
	if err := s.servers.Promote(ctx, fresh); err != nil {
		return "", err
	}
	for _, links := range s.links {
		if err := links[old.Name].Repoint(fresh.Addr); err != nil {
			return "", err
		}
	}
	s.fault(fresh.Name, "promoted to primary")
	return fresh.Name, nil
}

func (s *stage) AwaitFailover(ctx context.Context) (string, error) {
	s.dirty = true
	old := s.servers.Nodes()[0]
	fresh, err := s.servers.WaitFailover(ctx, old)
	if err != nil {
		return "", err
	}
	s.fault(fresh.Name, "promoted to primary by the Sentinels")
	return fresh.Name, nil
}

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

// patience bounds a trial: far more than its story takes, so that a hang ends.
func (c *Cell) patience() time.Duration { return 60*time.Second + 20*c.TTL }
