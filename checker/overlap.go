package checker

import (
	"cmp"
	"slices"

	"lockstress/history"
)

// span is a time for which an owner certainly had a lock. from < to, except for a
// grant so slow that its lease could have been over when it was answered: then it is
// a moment somewhere in [to, from].
type span struct {
	owner    int
	from, to int64
	holds    []*hold
}

// overlaps is what a sweep over the spans of one key finds.
type overlaps struct {
	pairs int   // of spans of different owners that overlap
	ns    int64 // time for which two owners or more had the lock
	// first is the earliest pair of spans that cannot both be; nil if there is none.
	first []span
}

// sweep finds the overlaps of different owners exactly. Two spans that merely touch
// do not overlap: what happens at one instant may have happened in either order.
// Sorting apart it takes linear time, however many pairs there are.
func sweep(spans []span) overlaps {
	var found overlaps
	var proper, moments []span
	for _, s := range spans {
		if s.from < s.to {
			proper = append(proper, s)
		} else {
			moments = append(moments, s)
		}
	}
	byFrom := func(a, b span) int { return cmp.Compare(a.from, b.from) }
	slices.SortStableFunc(proper, byFrom)
	byTo := slices.Clone(proper)
	slices.SortStableFunc(byTo, func(a, b span) int { return cmp.Compare(a.to, b.to) })

	var best ends
	active, owned := 0, map[int]int{}
	last, ended := int64(0), 0
	pass := func(t int64) {
		if len(owned) > 1 {
			found.ns += t - last
		}
		last = t
	}
	endUntil := func(t int64) { // what ends at t has ended before what begins at t
		for ended < len(byTo) && byTo[ended].to <= t {
			e := byTo[ended]
			pass(e.to)
			active--
			if owned[e.owner]--; owned[e.owner] == 0 {
				delete(owned, e.owner)
			}
			ended++
		}
	}
	for _, s := range proper {
		endUntil(s.from)
		pass(s.from)
		found.pairs += active - owned[s.owner]
		if b, ok := best.other(s.owner); ok && b.to > s.from && found.first == nil {
			found.first = []span{b, s}
		}
		best.add(s)
		active++
		owned[s.owner]++
	}
	endUntil(history.Never)

	// A moment can be anywhere in [to, from], so it clashes only with a span that
	// covers all of that – or with several of one owner that do so together.
	joined := join(proper)
	slices.SortStableFunc(joined, byFrom)
	slices.SortStableFunc(moments, func(a, b span) int { return cmp.Compare(a.to, b.to) })
	best = ends{}
	for at, i := 0, 0; i < len(moments); i++ {
		m := moments[i]
		for at < len(joined) && joined[at].from < m.to {
			best.add(joined[at])
			at++
		}
		if b, ok := best.other(m.owner); ok && b.to > m.from {
			found.pairs++
			if found.first == nil {
				found.first = []span{b, m}
			}
		}
	}
	return found
}

// ends remembers, of the spans added, the one that ends last and the one that does
// so among those of other owners.
type ends struct {
	n            int
	best, other_ span
}

func (e *ends) add(s span) {
	switch {
	case e.n == 0:
		e.best, e.n = s, 1
	case s.owner == e.best.owner:
		if s.to > e.best.to {
			e.best = s
		}
	case s.to > e.best.to:
		e.best, e.other_, e.n = s, e.best, 2
	case e.n == 1 || s.to > e.other_.to:
		e.other_, e.n = s, 2
	}
}

func (e *ends) other(owner int) (span, bool) {
	switch {
	case e.n > 0 && e.best.owner != owner:
		return e.best, true
	case e.n > 1:
		return e.other_, true
	}
	return span{}, false
}

// join makes one span of overlapping spans of one owner (re-entries).
func join(proper []span) []span {
	byOwner := slices.Clone(proper)
	slices.SortStableFunc(byOwner, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.from, b.from))
	})
	var out []span
	for _, s := range byOwner {
		if n := len(out); n > 0 && out[n-1].owner == s.owner && s.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			out[n-1].holds = append(slices.Clip(out[n-1].holds), s.holds...)
			continue
		}
		out = append(out, s)
	}
	return out
}

// sweepKeys sweeps each lock key on its own and adds up; first is of the key whose
// first overlap is the earliest.
func sweepKeys(holds []*hold, of func(*hold) (from, to int64)) overlaps {
	byKey := map[string][]span{}
	for _, d := range holds {
		from, to := of(d)
		byKey[d.key] = append(byKey[d.key], span{d.owner, from, to, []*hold{d}})
	}
	var all overlaps
	for _, spans := range byKey {
		o := sweep(spans)
		all.pairs += o.pairs
		all.ns += o.ns
		if o.first != nil && (all.first == nil || sooner(o.first, all.first)) {
			all.first = o.first
		}
	}
	return all
}

func sooner(a, b []span) bool {
	at := func(p []span) int64 { return max(p[0].from, p[1].from) }
	return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a[0].holds[0].id, b[0].holds[0].id)) < 0
}
