package monitor

import (
	"cmp"
	"math"
	"slices"
)

// A tenure is the stretch of time during which one hold has the lock. It starts at one
// moment and ends at one moment; what the operations of the hold say about it comes
// down to a window for each:
//
//	start ∈ [start1, start2]   end ∈ [end1, end2]   start ≤ end
//
// start2 is Never for a tenure that nothing proves (an acquire of unknown outcome and
// no successful release or extension). end1 is Never if nothing can end it, end2 if
// nothing must.
type tenure struct {
	start1, start2 int64
	end1, end2     int64
	// declined is the latest invocation of a release or extension that failed;
	// math.MinInt64 if there is none.
	declined int64
	acquire  int32 // index of the acquire, −1 if there is none
	class    class
	slot     uint8 // 1 + bit in a state, 0 for none
}

type class uint8

const (
	absent   class = iota // never had the lock
	fixed                 // end1 > start2: has it for certain from start2 to end1
	flexible              // had it for certain, but perhaps for no time at all
	phantom               // may have had it, and then may have lost it from end1 on
	forever               // may have had it, and if so has it still
)

// gap is a stretch in which a lease cannot end: after the latest end of what is known
// to be its last segment, before the earliest end of an extension of unknown outcome.
// In between it has either ended already or lasts on.
type gap struct{ from, to int64 }

// tenures is a history of one lock, understood hold by hold.
type tenures struct {
	ops    []LockOp
	all    []tenure
	hold   []int32 // operation → index into all
	events []event
	gaps   map[int32]gap
	// forever is the earliest moment at which a tenure of that class may begin.
	forever int64
	loose   []int32 // flexible and phantom, by start1
}

// kind of an [event].
type kind uint8

const (
	// ref is a tenure:
	mustStart     kind = iota // start2 of a fixed tenure
	mustHaveBeen              // start2 of a flexible tenure
	mustEnd                   // end2
	endOrStretch              // the gap of a lease begins
	interchanging             // a phantom has become like any other
	// ref is an operation, and the moment is its return:
	sawBusy    // an acquire that failed
	sawNotHeld // a release or extension that failed
)

func newTenures(ops []LockOp, rules LockRules, lease *LeaseRules) (*tenures, Verdict) {
	t := &tenures{ops: ops, forever: Never, hold: make([]int32, len(ops))}
	t.number()

	// What the operations of a hold say, together.
	type evidence struct {
		released     int32 // index of the successful release, −1 if there is none
		maybe        int64 // earliest invocation of a release of unknown outcome
		proven       int64 // earliest return of a success
		lasts        int64 // latest invocation of a successful extension
		expires      int64 // earliest moment at which a lease may end by itself
		extended     int32 // index of a successful extension, −1 if there is none
		acquiredOK   bool
		acquireFails bool
	}
	says := make([]evidence, len(t.all))
	for i := range says {
		says[i] = evidence{released: -1, extended: -1, maybe: Never, proven: Never, lasts: math.MinInt64, expires: math.MinInt64}
		t.all[i].acquire, t.all[i].declined = -1, math.MinInt64
	}
	count := 0
	for i := range ops {
		op := &ops[i]
		h := t.hold[i]
		e, u := &says[h], &t.all[h]
		switch {
		case op.Outcome < OK || op.Outcome > Info || op.Kind < Acquire || op.Kind > Extend:
			return nil, unknown([]int{i}, "operation %d is of no known kind and outcome", i)
		case op.Outcome != Info && op.Return < op.Invoke:
			return nil, unknown([]int{i}, "operation %d returns before it is invoked", i)
		case op.Kind == Acquire:
			if u.acquire >= 0 {
				return nil, unknown([]int{int(u.acquire), i}, "hold %d is acquired twice", op.Hold)
			}
			u.acquire, u.start1 = int32(i), op.Invoke
			e.acquireFails = op.Outcome == Fail
			if op.Outcome == OK {
				e.acquiredOK = true
				e.proven = min(e.proven, op.Return)
			}
		case op.Outcome == Fail:
			u.declined = max(u.declined, op.Invoke)
		case op.Kind == Release && op.Outcome == OK:
			if e.released >= 0 {
				return nil, illegal(t.witness(h), "hold %d is released twice", op.Hold)
			}
			e.released = int32(i)
			e.proven = min(e.proven, op.Return)
		case op.Kind == Release:
			e.maybe = min(e.maybe, op.Invoke)
		case op.Outcome == OK:
			e.extended = int32(i)
			e.lasts = max(e.lasts, op.Invoke)
			e.proven = min(e.proven, op.Return)
		}
		switch {
		case op.Outcome == Fail:
			count++
		case lease != nil && (op.Kind == Acquire || op.Kind == Extend && op.Outcome == OK):
			e.expires = max(e.expires, lease.earliest(op))
		}
	}
	if rules.IgnoreNotHeld {
		for i := range t.all {
			t.all[i].declined = math.MinInt64
		}
	}

	var segments map[int32][]int32
	if lease != nil && lease.Latest {
		segments = t.extensions()
	}
	t.events = make([]event, 0, 2*len(t.all)+count)
	for i := range t.all {
		u, e, h := &t.all[i], &says[i], int32(i)
		if u.acquire < 0 || e.acquireFails {
			if op := max(e.released, e.extended); op >= 0 {
				return nil, illegal(t.witness(h), "hold %d is released or extended, but was never acquired", ops[op].Hold)
			}
			continue // absent
		}
		lasts := max(u.start1, e.lasts)
		u.start2, u.end2 = e.proven, Never
		switch {
		case e.released >= 0:
			r := &ops[e.released]
			u.end1, u.end2 = max(lasts, r.Invoke), r.Return
		case lease == nil:
			u.end1 = max(lasts, e.maybe)
		default:
			u.end1 = max(lasts, min(e.maybe, e.expires))
		}
		if segments != nil && e.acquiredOK {
			if v := t.latest(h, lease, segments[h], max(lasts, e.maybe), max(lasts, e.expires), e.released >= 0); v.Result != Legal {
				return nil, v
			}
		}
		switch {
		case u.start2 < Never && u.start2 < u.start1:
			return nil, illegal(t.witness(h), "hold %d ends before it is acquired", ops[u.acquire].Hold)
		case u.end2 < u.end1:
			return nil, illegal(t.witness(h), "hold %d is still held after it has ended", ops[u.acquire].Hold)
		case u.start2 < Never && u.end1 > u.start2:
			u.class = fixed
			t.events = append(t.events, event{u.start2, h, mustStart})
		case u.start2 < Never:
			u.class = flexible
			t.loose = append(t.loose, h)
			t.events = append(t.events, event{u.start2, h, mustHaveBeen})
		case rules.IgnoreBusy:
			// What nothing proves can only help to explain a busy answer.
		case u.end1 == Never:
			u.class = forever
			t.forever = min(t.forever, max(u.start1, u.declined))
		default:
			u.class = phantom
			t.loose = append(t.loose, h)
			t.events = append(t.events, event{max(u.end1, u.declined), h, interchanging})
		}
	}
	// Of one hold, the events of its start come before that of its end even if
	// they are at the same time: the sort is stable.
	for i := range t.all {
		u, h := &t.all[i], int32(i)
		if u.class != fixed && u.class != flexible {
			continue
		}
		if u.end2 < Never {
			t.events = append(t.events, event{u.end2, h, mustEnd})
		}
		if g, ok := t.gaps[h]; ok {
			t.events = append(t.events, event{g.from, h, endOrStretch})
		}
	}
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Outcome != Fail:
		case op.Kind == Acquire:
			if !rules.IgnoreBusy {
				t.events = append(t.events, event{op.Return, int32(i), sawBusy})
			}
		default:
			if c := t.all[t.hold[i]].class; !rules.IgnoreNotHeld && c != absent && c != forever {
				t.events = append(t.events, event{op.Return, int32(i), sawNotHeld})
			}
		}
	}
	t.events = sortEvents(t.events)
	slices.SortFunc(t.loose, func(a, b int32) int { return cmp.Compare(t.all[a].start1, t.all[b].start1) })
	return t, legal()
}

// number gives every hold an index into all.
func (t *tenures) number() {
	if len(t.ops) == 0 {
		return
	}
	low, high := t.ops[0].Hold, t.ops[0].Hold
	for i := range t.ops {
		low, high = min(low, t.ops[i].Hold), max(high, t.ops[i].Hold)
	}
	n := int32(0)
	// Holds are usually numbered through, and then a slice does for a map.
	if span := uint64(high) - uint64(low); span < 4*uint64(len(t.ops))+64 {
		dense := make([]int32, span+1)
		for i := range t.ops {
			at := &dense[t.ops[i].Hold-low]
			if *at == 0 {
				n++
				*at = n
			}
			t.hold[i] = *at - 1
		}
	} else {
		sparse := make(map[int64]int32, len(t.ops)/2)
		for i := range t.ops {
			at, ok := sparse[t.ops[i].Hold]
			if !ok {
				at = n
				sparse[t.ops[i].Hold] = n
				n++
			}
			t.hold[i] = at
		}
	}
	t.all = make([]tenure, n)
}

// extensions lists those of each hold that succeeded or may have, by invocation.
func (t *tenures) extensions() map[int32][]int32 {
	of := map[int32][]int32{}
	for i := range t.ops {
		if op := &t.ops[i]; op.Kind == Extend && op.Outcome != Fail {
			of[t.hold[i]] = append(of[t.hold[i]], int32(i))
		}
	}
	for _, list := range of {
		slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(t.ops[a].Invoke, t.ops[b].Invoke) })
	}
	return of
}

// latest bounds the end of a lease by its latest expiry, given when it may end at the
// earliest: because of a lost release, or by itself. The extensions of a hold are
// best taken in the order of their invocations, each as early as it can be, since
// every one of them moves the bound on.
func (t *tenures) latest(h int32, rules *LeaseRules, extensions []int32, byRelease, expires int64, released bool) Verdict {
	u := &t.all[h]
	bound := rules.latest(&t.ops[u.acquire])
	// The first extension of unknown outcome is as good as any other.
	unsure, stretched := int64(Never), int64(Never)
	for _, i := range extensions {
		if t.ops[i].Outcome == Info {
			unsure, stretched = t.ops[i].Invoke, rules.earliest(&t.ops[i])
			break
		}
	}
	reach := func(moment int64) bool {
		if moment <= bound {
			return true
		}
		if unsure > bound {
			return false
		}
		bound, expires = Never, max(expires, stretched)
		return true
	}
	for _, i := range extensions {
		op := &t.ops[i]
		if op.Outcome != OK {
			continue
		}
		if !reach(op.Invoke) {
			return illegal(t.witness(h), "hold %d is extended after its latest expiry", op.Hold)
		}
		bound = max(bound, rules.latest(op))
	}
	if released {
		if !reach(u.end1) {
			return illegal(t.witness(h), "hold %d is released after its latest expiry", t.ops[u.acquire].Hold)
		}
		if unsure > bound {
			u.end2 = min(u.end2, bound)
		}
		return legal()
	}
	u.end1 = min(byRelease, expires)
	switch {
	case bound == Never:
	case unsure > bound:
		u.end2 = bound
	default:
		// The unsure extension may have been made: then the lease lasts on.
		if again := min(byRelease, max(expires, stretched)); again > bound {
			if t.gaps == nil {
				t.gaps = map[int32]gap{}
			}
			t.gaps[h] = gap{bound, again}
		}
	}
	return legal()
}

// endable says whether a tenure that has the lock can end at the given time.
func (t *tenures) endable(h int32, now int64) bool {
	if now < t.all[h].end1 {
		return false
	}
	if t.gaps != nil {
		if g, ok := t.gaps[h]; ok && now > g.from && now < g.to {
			return false
		}
	}
	return true
}

// witness lists the operations of the given holds, in their order, leaving out
// what says nothing.
func (t *tenures) witness(holds ...int32) []int {
	var list []int
	for i := range t.ops {
		if slices.Contains(holds, t.hold[i]) {
			list = append(list, i)
		}
	}
	return list
}
