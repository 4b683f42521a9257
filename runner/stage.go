package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockstress/faults/network"
	"lockstress/history"
	"lockstress/scenarios"
	"lockstress/topology"
	"lockstress/witness"
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
	links []map[string]*network.Link
	// resourceLinks[worker] to the resource's server; nil likewise.
	resourceLinks []*network.Link
	bent          map[*network.Link]bent      // links with a fault that Heal ends
	witnesses     map[string]*witness.Witness // by node
	refused       chan struct{}               // closed at the first refusal that a witness saw
	refuse        sync.Once
	// dirty: a server was killed, promoted or told something, so the topology cannot be used again.
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

// patience bounds a trial: far more than its story takes, so that a hang ends.
func (c *Cell) patience() time.Duration { return 60*time.Second + 20*c.TTL }
