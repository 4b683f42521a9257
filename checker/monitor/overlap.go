package monitor

import (
	"cmp"
	"slices"
)

// Overlap looks for two beliefs in the same lock at the same time. It takes beliefs in
// the order in which they begin and keeps one per key, so it can follow a history of
// any length. The zero value is ready.
//
// A belief runs from the return of a successful acquire to the invocation of the
// release, whatever the release answers, or to the moment at which its holder learned
// of the loss; it has the length zero if that is before the return.
type Overlap struct {
	last map[int32]Belief
}

// Belief of a client that it has a lock.
type Belief struct {
	From, To int64 // To is Never if it does not end
	Key      int32
	Index    int // of the acquire, or whatever the caller wants to find in a witness
}

// Add takes the next belief. If an earlier one of the same key lasts beyond the start
// of b, the two overlap: Add returns the earlier one and true. Beliefs that touch do
// not overlap.
func (o *Overlap) Add(b Belief) (with Belief, overlaps bool) {
	if o.last == nil {
		o.last = map[int32]Belief{}
	}
	was, ok := o.last[b.Key]
	if !ok || b.To > was.To || b.To == was.To && b.From > was.From {
		o.last[b.Key] = b
	}
	// b.From ≥ was.From, so they share more than a point if each ends after
	// the other begins.
	return was, ok && b.From < was.To && b.To > was.From
}

// Mutex judges mutual exclusion as users of a lock believe in it: a release ends the
// hold when it is invoked, whatever it answers; failed acquires, acquires of unknown
// outcome and extensions say nothing. ends gives further moments at which the belief
// in a hold ended, by hold; it may be nil.
func Mutex(ops []LockOp, ends map[int64]int64) Verdict {
	beliefs, v := beliefs(ops, ends)
	if v.Result != Legal {
		return v
	}
	var o Overlap
	for _, b := range beliefs {
		was, overlaps := o.Add(b)
		if !overlaps {
			continue
		}
		var witness []int
		for i := range ops {
			if h := ops[i].Hold; ops[i].Key == b.Key && (h == ops[b.Index].Hold || h == ops[was.Index].Hold) {
				witness = append(witness, i)
			}
		}
		v := illegal(witness, "holds %d and %d both believe to have the lock at time %d",
			ops[was.Index].Hold, ops[b.Index].Hold, b.From)
		v.Key = b.Key
		return v
	}
	return legal()
}

// beliefs returns the beliefs of a history in the order in which they begin.
func beliefs(ops []LockOp, ends map[int64]int64) ([]Belief, Verdict) {
	type name struct {
		hold int64
		key  int32
	}
	ended := make(map[name]int64, len(ops)/2)
	acquires := 0
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Outcome != Info && op.Return < op.Invoke:
			return nil, unknown([]int{i}, "operation %d returns before it is invoked", i)
		case op.Kind == Release:
			n := name{op.Hold, op.Key}
			if was, ok := ended[n]; !ok || op.Invoke < was {
				ended[n] = op.Invoke
			}
		case op.Kind == Acquire && op.Outcome == OK:
			acquires++
		}
	}
	list := make([]Belief, 0, acquires)
	for i := range ops {
		op := &ops[i]
		if op.Kind != Acquire || op.Outcome != OK {
			continue
		}
		to := int64(Never)
		if at, ok := ended[name{op.Hold, op.Key}]; ok {
			to = at
		}
		if at, ok := ends[op.Hold]; ok {
			to = min(to, at)
		}
		// Nothing ends before it was asked for.
		list = append(list, Belief{op.Return, max(to, op.Invoke), op.Key, i})
	}
	slices.SortFunc(list, func(a, b Belief) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return list, legal()
}
