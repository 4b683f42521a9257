package checker

import (
	"fmt"

	"lockstress/history"
	"lockstress/results"
)

// Kinds of false answers.
const (
	acquireLie = "acquire_ok_not_held"
	extendLie  = "extend_ok_not_held"
	releaseLie = "release_ok_not_held"
	denialLie  = "release_not_held_but_held"
)

// honesty judges whether acquire, extend and release tell the truth about ownership.
// An answer counts as false only if what servers executed proves it: never because
// the witness did not hear of something on a server that had a fault of its own.
func (j *judge) honesty() Finding {
	if !j.h.Header.Locks {
		return finding(results.NotApplicable, nil, "this control takes no lock")
	}
	if !j.h.Header.Witnessed {
		return finding(results.NotApplicable, nil, "no witness watched the servers")
	}
	w := j.witness()
	switch {
	case w.nodes == 0:
		return finding(results.Unknown, nil, "the witness wrote nothing down")
	case w.nodes > j.servers():
		// After a failover the key may live on a server that never set it.
		return finding(results.NotApplicable, nil, "%d servers took part in the lock of %d: what one executed proves nothing about the others", w.nodes, j.servers())
	}
	figures := map[string]float64{"false_answers": 0, acquireLie: 0, extendLie: 0, releaseLie: 0, denialLie: 0}
	var lying *hold
	var reason string
	lie := func(kind string, d *hold, op *history.Operation, truth string) {
		figures["false_answers"]++
		figures[kind]++
		if lying == nil {
			lying, reason = d, fmt.Sprintf("%s, at %s, but %s", j.describe(op), ms(op.Return), truth)
		}
	}
	for _, d := range j.holds {
		if d.granted() && (j.goneBefore(w, d, d.acquire.Return) || j.outlived(w, d)) {
			lie(acquireLie, d, d.acquire, "its key was gone by then")
		}
		for _, x := range d.extends {
			if x.Outcome == history.OK && d.released() > x.Return && j.goneBefore(w, d, x.Invoke) {
				lie(extendLie, d, x, "its key was gone before the extension was asked for")
			}
		}
		if len(d.releases) == 0 {
			continue
		}
		r := d.releases[0] // a second one may find the work of the first
		switch {
		case r.Outcome == history.OK && d.lost > r.Invoke && j.goneBefore(w, d, r.Invoke):
			lie(releaseLie, d, r, "its key was gone before: it removed nothing of its own")
		case r.Outcome == history.Fail && r.Code == history.NotHeld && j.stayed(w, d, r):
			lie(denialLie, d, r, "its key was there all the time")
		}
	}
	switch {
	case lying == nil && w.nameless:
		return finding(results.NotApplicable, nil, "the keys of this lock carry no owner, and whose each was cannot be told from the time alone")
	case lying == nil:
		return finding(results.Holds, figures, "")
	}
	f := finding(results.Violated, figures, reason)
	pieces := []piece{{hold: lying}}
	for _, x := range lying.extends {
		pieces = append(pieces, piece{lying, x})
	}
	f.Cut = j.cutPieces(pieces, true)
	return f
}

// outlived: the keys of d had run out of time on so many servers, before its acquire
// answered, that no quorum can have held it. Needs clocks that were left alone.
func (v *view) outlived(w *witness, d *hold) bool {
	if v.clockFault() {
		return false
	}
	n := 0
	for _, log := range w.logs[d.key] {
		over := int64(history.Never)
		for _, x := range log.notes {
			if x.hold != d.id {
				continue
			}
			switch x.Effect {
			case history.Set:
				over = history.Never
				if x.TTL > 0 {
					over = x.Time + x.TTL
				}
			case history.Extended:
				over = history.Never
			}
		}
		if over != history.Never && !log.doubtful && over+max(v.h.Header.Margin, stampLag/2) < d.acquire.Return {
			n++
		}
	}
	return n >= v.blocking()
}

// stayed: the key of d was there, on a quorum, from before op was invoked until after
// it was answered. That something was not removed until later cannot be read off a
// note of the removal, which may be late. But a key that was left to expire was there
// until its time was up, and that cannot have been sooner than its TTL after the
// acquire was invoked.
func (v *view) stayed(w *witness, d *hold, op *history.Operation) bool {
	if v.clockFault() {
		return false
	}
	n := 0
	for _, log := range w.logs[d.key] {
		const (
			absent = iota
			present
			expired
			spoilt
		)
		state, ttl := absent, int64(0)
		for _, x := range log.notes {
			about := x.hold == d.id
			switch {
			case about && x.Effect == history.Set && x.Time < op.Invoke && state == absent && x.TTL > 0:
				state, ttl = present, x.TTL
			case about && x.Effect == history.Extended && state == present && x.TTL > 0:
				ttl = min(ttl, x.TTL)
			case about && x.Effect == history.Expired && state == present:
				state = expired
			case about && x.Effect == history.Denied:
			case about || x.hold == 0 && x.Effect != history.Denied || x.Effect == history.Set && state == present:
				state = spoilt
			}
		}
		if state == expired && !log.doubtful && d.acquire.Invoke+ttl-v.h.Header.Margin > op.Return {
			n++
		}
	}
	return n >= v.quorum()
}
