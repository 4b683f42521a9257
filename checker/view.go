package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockstress/history"
	"lockstress/results"
)

// view is a history made ready for judging.
type view struct {
	h     *history.History
	ops   []history.Operation
	end   int64   // time of the last event
	holds []*hold // every acquire, in order of invocation
	byID  map[int64]*hold
	notes []*history.Event
}

// hold is an acquire, whatever its outcome, and what belongs to it.
type hold struct {
	id     int64
	key    string
	client int
	// owner tells believers apart: a client, until it is killed. A second grant to
	// the same owner is a re-entry, not a second holder.
	owner             int
	acquire           *history.Operation
	extends, releases []*history.Operation
	lost, dead        int64 // [history.Never] if that did not happen
}

// granted: the lock told the client that it has it.
func (d *hold) granted() bool { return d.acquire.Outcome == history.OK }

// released is when the first release was invoked, [history.Never] if none was.
func (d *hold) released() int64 {
	first := int64(history.Never)
	for _, r := range d.releases {
		first = min(first, r.Invoke)
	}
	return first
}

// killGrace is for how long after the note of its killing a process may still be
// seen to act: the note is written before the signal is sent.
const killGrace = time.Second

func newView(h *history.History) (*view, error) {
	ops, err := h.Operations()
	if err != nil {
		return nil, err
	}
	v := &view{h: h, ops: ops, byID: map[int64]*hold{}}
	seen := map[int]int64{}     // process → time of its first event
	acted := map[int]int64{}    // process → time of its last invocation
	deaths := map[int][]int64{} // client → times at which it was killed
	lost := map[int64]int64{}
	for i := range h.Events {
		e := &h.Events[i]
		if _, ok := seen[e.Process]; !ok && e.Op != history.Dead {
			seen[e.Process] = e.Time
		}
		v.end = e.Time
		switch {
		case e.Type == history.Invoke:
			acted[e.Process] = e.Time
		case e.Type != history.Note:
		default:
			v.notes = append(v.notes, e)
			switch e.Op {
			case history.Dead:
				c := v.client(e.Process)
				deaths[c] = append(deaths[c], e.Time)
			case history.Lost:
				if _, ok := lost[e.Hold]; !ok {
					lost[e.Hold] = e.Time
				}
			}
		}
	}
	// killed is when a process was killed: all numbers in use by a client at that
	// moment die with it. A client that is started again has a new number, as after
	// any outcome that it does not know.
	killed := func(process int) int64 {
		for _, d := range deaths[v.client(process)] {
			if seen[process] <= d {
				return d
			}
		}
		return history.Never
	}
	for process, last := range acted {
		if d := killed(process); d != history.Never && last-d > int64(killGrace) {
			return nil, fmt.Errorf("process %d acts %v after it was killed: a client that is started again needs a new number", process, time.Duration(last-d))
		}
	}

	type believer struct{ client, lives int }
	owners := map[believer]int{}
	for i := range ops {
		op := &ops[i]
		switch op.Op {
		case history.Acquire:
			d := &hold{id: op.Hold, key: op.Key, client: v.client(op.Process), acquire: op, lost: history.Never, dead: killed(op.Process)}
			if t, ok := lost[op.Hold]; ok {
				d.lost = t
			}
			b := believer{client: d.client}
			for _, t := range deaths[d.client] {
				if seen[op.Process] > t {
					b.lives++
				}
			}
			if _, ok := owners[b]; !ok {
				owners[b] = len(owners)
			}
			d.owner = owners[b]
			v.holds = append(v.holds, d)
			v.byID[d.id] = d
		case history.Extend:
			if d := v.byID[op.Hold]; d != nil {
				d.extends = append(d.extends, op)
			}
		case history.Release:
			if d := v.byID[op.Hold]; d != nil {
				d.releases = append(d.releases, op)
			}
		}
	}
	return v, nil
}

// client returns the client slot of a process; a process that is none of a client's
// stands for itself, under a negative number.
func (v *view) client(process int) int {
	if v.h.Header.Clients < 1 {
		return process
	}
	if c, _ := v.h.Header.Client(process); c >= 0 {
		return c
	}
	return -10 - process
}

// grants are the holds that were granted.
func (v *view) grants() []*hold {
	var all []*hold
	for _, d := range v.holds {
		if d.granted() {
			all = append(all, d)
		}
	}
	return all
}

// when is the time at which what became of op was known: its completion's, also if
// that says "unknown"; [history.Never] for an operation left open.
func (v *view) when(op *history.Operation) int64 {
	if op.Last < 0 {
		return history.Never
	}
	return v.h.Events[op.Last].Time
}

// belief is the time for which the client of a granted hold believes in it: from the
// acquire's return to the release's invocation, the word that the lease is lost, the
// client's death or the end of the history. to ≤ from if it never believed.
func (v *view) belief(d *hold) (from, to int64) {
	return d.acquire.Return, min(d.released(), d.lost, d.dead, v.end)
}

// deadline is when the lease of d ended as far as its holder could know, after the
// extensions that it knew of; 0 for never.
func (v *view) deadline(d *hold) int64 {
	if !v.h.Header.Expires {
		return 0
	}
	until := func(op *history.Operation) int64 {
		if op.Deadline != 0 {
			return op.Deadline
		}
		return op.Return + v.h.Header.TTL
	}
	last := until(d.acquire)
	for _, x := range d.extends {
		if x.Outcome == history.OK {
			last = max(last, until(x))
		}
	}
	return last
}

func (v *view) drawnHolds() []results.Hold {
	var out []results.Hold
	for _, d := range v.grants() {
		from, to := v.belief(d)
		out = append(out, results.Hold{
			Client: d.client, Hold: d.id, Key: d.key, From: from, To: max(from, to), Lease: v.deadline(d),
		})
	}
	slices.SortStableFunc(out, func(a, b results.Hold) int { return cmp.Compare(a.From, b.From) })
	return out
}

// drawnSpans pairs each Fault with the next Heal of the same node and text; a fault
// without one lasts to the end.
func (v *view) drawnSpans() []results.Span {
	type fault struct{ node, text string }
	var out []results.Span
	open := map[fault][]int{}
	for _, e := range v.notes {
		f := fault{e.Node, e.Text}
		switch e.Op {
		case history.Fault:
			open[f] = append(open[f], len(out))
			out = append(out, results.Span{Text: e.Text, Node: e.Node, From: e.Time, To: v.end})
		case history.Heal:
			if at := open[f]; len(at) > 0 {
				out[at[0]].To = e.Time
				open[f] = at[1:]
			}
		}
	}
	return out
}

// exercised tells whether the trial tested anything.
func (v *view) exercised() (ok bool, why string, evidence []string) {
	for _, e := range v.notes {
		if e.Op == history.Bite {
			evidence = append(evidence, e.Text)
		}
	}
	for _, e := range v.notes {
		if e.Op == history.Miss {
			return false, "the fault missed: " + e.Text, evidence
		}
	}
	if v.h.Header.Faulty && len(evidence) == 0 {
		return false, "nothing shows that the fault bit", evidence
	}
	for i := range v.ops {
		op := &v.ops[i]
		if op.Outcome != history.OK {
			continue
		}
		if op.Op == history.Acquire || !v.h.Header.Locks && (op.Op == history.Buy || op.Op == history.Withdraw) {
			return true, "", evidence
		}
	}
	if v.h.Header.Locks {
		return false, "no acquire succeeded", evidence
	}
	return false, "no buy or withdrawal succeeded", evidence
}
