package checker

import (
	"fmt"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
	"lockstress/results"
)

// resource judges whether the history of the protected resource is linearizable.
func (j *judge) resource() Finding {
	ledgers := j.ledgers()
	if len(ledgers) == 0 {
		return finding(results.NotApplicable, nil, "the workload touched no resource")
	}
	figures := j.resourceFigures(ledgers)
	var undecided string
	for _, l := range ledgers {
		f := j.judgeLedger(l)
		f.Figures = figures
		switch f.Verdict {
		case results.Violated:
			return f
		case results.Unknown:
			undecided = f.Reason
		}
	}
	if undecided != "" {
		return finding(results.Unknown, figures, undecided)
	}
	return finding(results.Holds, figures, "")
}

func (j *judge) judgeLedger(l *ledger) Finding {
	if cut, reason := j.cutLedger(l); cut != nil {
		// What was found is believed once the search agrees, on the cut as saved.
		v, err := newView(cut)
		if err != nil {
			return finding(results.Unknown, nil, "the counterexample is no history: %v", err)
		}
		m := resourceModel(cut.Header.Initial)
		switch result, why := j.search(m, v.resourceOps()); result {
		case porcupine.Illegal:
			f := finding(results.Violated, nil, reason)
			f.Cut, f.Picture = cut, picture(cut, m, (*view).resourceOps)
			return f
		case porcupine.Ok:
			return finding(results.Unknown, nil, disagreement, "the search passes what the sweep refutes: "+reason)
		default:
			return finding(results.Unknown, nil, why)
		}
	}
	m := resourceModel(l.initial)
	switch result, why := j.second(m, j.view, l); {
	case result == porcupine.Ok:
		return finding(results.Holds, nil, "")
	case result == porcupine.Unknown:
		return finding(results.Unknown, nil, why)
	case !l.blind():
		return finding(results.Unknown, nil, disagreement, "the second judge refutes what the sweep passed")
	}
	// A prefix of a legal history is legal, so the shortest illegal one is found by
	// bisection. A search that ran out of time counts as legal: the prefix may be
	// longer than needed then, but never legal.
	var cut *history.History
	sort.Search(len(j.h.Events), func(n int) bool {
		h := j.prefix(l, n+1)
		v, err := newView(h)
		if err != nil {
			return false
		}
		short := v.ledgers()
		if len(short) != 1 {
			return false
		}
		result, _ := j.second(m, v, short[0])
		if result == porcupine.Illegal {
			cut = h
		}
		return result == porcupine.Illegal
	})
	if cut == nil {
		return finding(results.Unknown, nil, "the search refutes the history but no prefix of it in its time")
	}
	if v, err := newView(cut); err == nil && len(v.ledgers()) == 1 && !v.ledgers()[0].blind() {
		// What made it blind came later: now the sweep can cut it down further.
		if f := (&judge{j.ctx, j.o, v}).judgeLedger(v.ledgers()[0]); f.Verdict == results.Violated {
			return f
		}
	}
	f := finding(results.Violated, nil, "no order of the operations on %s explains what was seen of it", l.key)
	f.Cut, f.Picture = cut, picture(cut, m, (*view).resourceOps)
	return f
}

// cutLedger looks for a contradiction and cuts the history down to it; nil if the
// sweep finds none.
//
// The cut's Header.Initial is the value that the cut starts from. The cut is illegal
// only if the whole history is:
//
//   - one entry that is absurd is so from the true initial value, which is kept;
//   - a clashing pair is illegal from any initial value; the cut starts from what its
//     first saw;
//   - else the cut is a window: a prefix, less whatever is above some value, starting
//     from that value. In a linearization of the whole, that value is left at some
//     time, certain entries at lower values come after, and uncertain sales that were
//     used before are not needed any more: so the window would be legal too.
func (v *view) cutLedger(l *ledger) (cut *history.History, reason string) {
	for i := range l.entries {
		if e := &l.entries[i]; l.absurd(e) {
			return v.cutEntries(l, l.initial, e), fmt.Sprintf("%s, of %s, which started with %d and falls by %d with each sale",
				v.describe(e.op), l.key, l.initial, l.amount)
		}
	}
	if a, b, ok := l.clash(); ok {
		if a.kind == sale && b.kind == sale && a.value == b.value {
			reason = fmt.Sprintf("two sales were made from the same value of %s, %d", l.key, a.value)
		} else {
			reason = fmt.Sprintf("%s had at most %d left at %s, yet %d was seen of it afterwards", l.key, l.after(a), ms(a.ret), b.value)
		}
		return v.cutEntries(l, a.value, a, b), reason
	}
	if l.blind() || l.balanced() {
		return nil, ""
	}
	// The shortest prefix, then the lowest start.
	n := 1 + sort.Search(len(v.h.Events), func(n int) bool { return !l.until(v, n+1).balanced() })
	w := l.until(v, n)
	seen := []int64{l.initial}
	for i := range w.entries {
		if e := &w.entries[i]; e.known && e.kind != maybe {
			seen = append(seen, e.value)
		}
	}
	slices.Sort(seen)
	seen = slices.Compact(seen)
	// What is illegal from one start is illegal from any above it.
	w = w.from(seen[sort.Search(len(seen)-1, func(i int) bool { return !w.from(seen[i]).balanced() })])
	// What only looked can be dropped, and uncertain sales that settle nothing.
	w = w.settle().ledger
	looks := w.only(func(e *entry) bool { return e.kind == look || e.kind == empty }).entries
	rest := w.only(func(e *entry) bool { return e.kind == sale || e.kind == maybe }).entries
	with := func(looks []entry) *ledger {
		x := *w
		x.entries = slices.Concat(rest, looks)
		slices.SortStableFunc(x.entries, func(a, b entry) int { return a.op.First - b.op.First })
		return &x
	}
	looks = shrink(looks, func(some []entry) bool { return !with(some).balanced() })
	w = with(looks)
	var entries []*entry
	for i := range w.entries {
		entries = append(entries, &w.entries[i])
	}
	return v.cutPrefix(l, n, w.initial, entries...),
		fmt.Sprintf("from %d on, no order of the operations on %s explains what was seen of it", w.initial, l.key)
}

// from returns the window of l that starts at the value.
func (l *ledger) from(value int64) *ledger {
	x := l.only(func(e *entry) bool {
		return e.value <= value || e.kind == maybe && !e.known || e.kind == empty && !e.known
	})
	x.initial = value
	return x
}

// until returns what l would be if the history ended after n events.
func (l *ledger) until(v *view, n int) *ledger {
	x := *l
	x.entries = nil
	for _, e := range l.entries {
		switch {
		case e.op.First >= n:
			continue
		case e.op.Last < n:
		case e.kind == sale || e.kind == maybe:
			e.kind, e.ret, e.known, e.value = maybe, history.Never, false, 0
		default:
			continue // a look that has shown nothing yet
		}
		x.entries = append(x.entries, e)
	}
	return &x
}

// prefix is the first n events, as far as they concern l.
func (v *view) prefix(l *ledger, n int) *history.History {
	var entries []*entry
	for i := range l.entries {
		if l.entries[i].op.First < n {
			entries = append(entries, &l.entries[i])
		}
	}
	return v.cutPrefix(l, n, l.initial, entries...)
}

func (v *view) cutEntries(l *ledger, initial int64, entries ...*entry) *history.History {
	return v.cutPrefix(l, len(v.h.Events), initial, entries...)
}

// cutPrefix makes a history of entries as they were after n events, and of the notes
// meanwhile. Operations on locks are left out: they are no part of the argument.
func (v *view) cutPrefix(l *ledger, n int, initial int64, entries ...*entry) *history.History {
	var ops []*history.Operation
	var holds []*hold
	for _, e := range entries {
		op := *e.op
		if op.Last >= n {
			op.Last = -1
		}
		ops = append(ops, &op)
		if d := v.byID[op.Hold]; d != nil && !slices.Contains(holds, d) {
			holds = append(holds, d)
		}
	}
	cut := v.cut(ops, holds, true)
	cut.Header.Initial, cut.Header.Amount = initial, l.amount
	return cut
}

// resourceFigures counts the damage. A unit is what one sale takes.
func (v *view) resourceFigures(ledgers []*ledger) map[string]float64 {
	var sold, maybeSold, over, overMax, lost, left, stale, gaveUp int64
	audited := false
	for _, l := range ledgers {
		var certain, uncertain int64
		var final *entry
		last := int64(0) // when the last certain sale was answered
		for i := range l.entries {
			e := &l.entries[i]
			switch e.kind {
			case sale:
				certain++
				last = max(last, e.ret)
			case maybe:
				uncertain++
			case look:
				if final == nil || e.call >= final.call {
					final = e
				}
			}
		}
		sold += certain
		maybeSold += uncertain
		there := max(l.initial, 0) / l.amount
		over += max(0, certain-there)
		overMax += max(0, certain+uncertain-there)
		// A read before the last sale was answered does not tell what is missing.
		if final != nil && final.call >= last {
			audited = true
			lost += max(0, certain-(l.initial-final.value)/l.amount)
			left += final.value
		}
	}
	for i := range v.ops {
		op := &v.ops[i]
		if op.Op != history.Buy && op.Op != history.Withdraw {
			continue
		}
		switch op.Code {
		case history.Stale:
			stale++
		case history.GaveUp:
			gaveUp++
		}
	}
	figures := map[string]float64{
		"sold_units": float64(sold), "unknown_units": float64(maybeSold),
		"oversold_units": float64(over), "oversold_max_units": float64(overMax),
		"stale_writes_refused": float64(stale), "gave_up": float64(gaveUp),
	}
	if audited {
		figures["lost_updates"], figures["left_units"] = float64(lost), float64(left)
	}
	return figures
}
