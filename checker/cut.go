package checker

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
	"lockstress/results"
)

// shrink returns a subset of items for which bad still holds, and for no set with
// one item less (1-minimal): delta debugging, with chunks of half the rest, a
// quarter, … down to one. bad(items) must hold to begin with.
//
// It is used where fewer items never make a legal history illegal. That is so for
// whole holds in the lock models: take a linearization and delete a hold's grant,
// extensions, releases and expiries. What is left of it is legal still, because a
// grant asks for a lock that is free, or its own, and deleting can only have freed
// it; and an extension asks for its own hold only. It is so for single extensions
// too: a lease without one may end sooner, never later. A release alone must not be
// dropped.
func shrink[T any](items []T, bad func([]T) bool) []T {
	for size := max(len(items)/2, 1); ; size = max(size/2, 1) {
		dropped := false
		for from := 0; from < len(items); {
			rest := slices.Concat(items[:from], items[min(from+size, len(items)):])
			if len(rest) < len(items) && bad(rest) {
				items, dropped = rest, true
			} else {
				from += size
			}
		}
		if size == 1 && !dropped {
			return items
		}
	}
}

// piece is what [shrink] drops from a lock's counterexample: a whole hold, or one
// extension of a hold.
type piece struct {
	hold   *hold
	extend *history.Operation // nil: the hold
}

// cutHolds cuts the history down to the holds of the given spans and then to as few
// as still violate, or says why it could not.
func (j *judge) cutHolds(spans []span, translate func(*view) []porcupine.Operation) (cut *history.History, why string) {
	var all []piece
	for _, s := range spans {
		for _, d := range s.holds {
			all = append(all, piece{hold: d})
			for _, x := range d.extends {
				if x.Outcome == history.OK {
					all = append(all, piece{d, x})
				}
			}
		}
	}
	var trouble string
	// Judged is what the cut says when read back, so nothing of it can be missing.
	bad := func(pieces []piece) bool {
		v, err := newView(j.cutPieces(pieces, false))
		if err != nil {
			trouble = err.Error()
			return false
		}
		result, why := j.search(lockModel, translate(v))
		if result == porcupine.Unknown {
			trouble = why
		}
		return result == porcupine.Illegal
	}
	if !bad(all) {
		if trouble != "" {
			return nil, trouble
		}
		return nil, fmt.Sprintf(disagreement, "the search passes what the sweep refutes")
	}
	return j.cutPieces(shrink(all, bad), true), ""
}

// cutPieces makes a history of the acquires, releases and kept extensions of holds.
func (v *view) cutPieces(pieces []piece, story bool) *history.History {
	var ops []*history.Operation
	var holds []*hold
	for _, p := range pieces {
		if p.extend == nil {
			holds = append(holds, p.hold)
			ops = append(ops, p.hold.acquire)
			ops = append(ops, p.hold.releases...)
		}
	}
	for _, p := range pieces {
		if p.extend != nil && slices.Contains(holds, p.hold) {
			ops = append(ops, p.extend)
		}
	}
	return v.cut(ops, holds, story)
}

// cut makes a history of the events of ops and of what is needed to judge holds:
// losses, deaths and where the history ends. With story it keeps also the notes that
// tell a reader what went on meanwhile: faults, sync points, what servers executed.
func (v *view) cut(ops []*history.Operation, holds []*hold, story bool) *history.History {
	keep := map[int]bool{}
	keys, clients := map[string]bool{}, map[int]bool{}
	from, to := int64(history.Never), int64(0)
	for _, op := range ops {
		keep[op.First] = true
		if op.Last >= 0 {
			keep[op.Last] = true
			to = max(to, v.h.Events[op.Last].Time)
		}
		from, to = min(from, op.Invoke), max(to, op.Invoke)
		keys[op.Key] = true
		clients[v.client(op.Process)] = true
	}
	openEnded := false
	mine := map[int64]bool{}
	for _, d := range holds {
		mine[d.id] = true
		keys[d.key] = true
		clients[d.client] = true
		if d.granted() && min(d.released(), d.lost, d.dead) == history.Never {
			openEnded = true
		}
	}
	if openEnded {
		to = v.end
	}
	spans := v.drawnSpans()
	var owner map[int]int64
	if story && v.h.Header.Witnessed {
		owner = v.witness().owner
	}
	out := &history.History{Header: v.h.Header}
	for i := range v.h.Events {
		e := v.h.Events[i]
		if id, known := owner[i]; known {
			e.Hold = id // the rest of the history, by which it was known, goes
		}
		ok := keep[i]
		if e.Type == history.Note {
			within := e.Time >= from && e.Time <= to
			switch e.Op {
			case history.Lost:
				ok = mine[e.Hold]
			case history.Dead:
				// All of a client's deaths: they tell its lives apart.
				ok = clients[v.client(e.Process)]
			case history.Bite, history.Miss:
				ok = story
			case history.Fault, history.Heal:
				ok = story && slices.ContainsFunc(spans, func(s results.Span) bool {
					return s.Node == e.Node && s.Text == e.Text && s.From <= to && s.To >= from
				})
			case history.Exec:
				ok = story && keys[e.Key] && (within || mine[e.Hold])
			case history.Sync:
				ok = story && within && (mine[e.Hold] || e.Hold == 0 && clients[v.client(e.Process)])
			}
		}
		if ok {
			out.Events = append(out.Events, e)
		}
	}
	// Beliefs that last to the end of the history last to this one's.
	if n := len(out.Events); n > 0 && openEnded && out.Events[n-1].Time < v.end {
		out.Events = append(out.Events, endMark(v.end))
	}
	return out
}

// endMark is a note that does nothing but show how long the history lasts.
func endMark(t int64) history.Event {
	return history.Event{Time: t, Process: history.Nemesis, Type: history.Note, Op: history.Sync, Text: "end of the history"}
}
