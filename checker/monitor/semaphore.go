package monitor

import "container/heap"

// Semaphore judges a counting semaphore of n permits, all free at first. Who acquires
// and who releases does not matter, nor do holds.
//
//	acquire ok legal if fewer than n permits are taken; takes one
//	release ok legal if a permit is taken; frees one
//
// Operations that failed did not happen; their answers are not judged. Extensions are
// left out.
func Semaphore(ops []LockOp, n int) Verdict {
	if n < 1 {
		return unknown(nil, "a semaphore of %d permits is none", n)
	}
	return eachKey(ops, lockKey, func(ops []LockOp) Verdict { return permits(ops, n) })
}

// OwnerlessMutex judges a mutex that anybody may release: a semaphore of one permit.
func OwnerlessMutex(ops []LockOp) Verdict { return Semaphore(ops, 1) }

// permits puts every operation off until it must have happened. Then, if there is no
// room for it, one of the other kind must have happened before; of those invoked, the
// one that has to return soonest is as good as any.
func permits(ops []LockOp, n int) Verdict {
	var musts, calls []event
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Outcome < OK || op.Outcome > Info || op.Kind < Acquire || op.Kind > Extend:
			return unknown([]int{i}, "operation %d is of no known kind and outcome", i)
		case op.Kind == Extend || op.Outcome == Fail:
			continue
		case op.Outcome == OK && op.Return < op.Invoke:
			return unknown([]int{i}, "operation %d returns before it is invoked", i)
		case op.Outcome == OK:
			musts = append(musts, event{time: op.Return, ref: int32(i)})
		}
		calls = append(calls, event{time: op.Invoke, ref: int32(i)})
	}
	musts, calls = sortEvents(musts), sortEvents(calls)
	done := make([]bool, len(ops))
	var open [Extend]struct {
		certain soonest
		unsure  int // operations of unknown outcome
	}
	taken := 0
	happen := func(k Kind) {
		if k == Acquire {
			taken++
		} else {
			taken--
		}
	}
	for _, must := range musts {
		for len(calls) > 0 && calls[0].time <= must.time {
			i := calls[0].ref
			calls = calls[1:]
			if o := &open[ops[i].Kind]; ops[i].Outcome == OK {
				heap.Push(&o.certain, deadline{ops[i].Return, i})
			} else {
				o.unsure++
			}
		}
		if done[must.ref] {
			continue
		}
		kind := ops[must.ref].Kind
		if kind == Acquire && taken == n || kind == Release && taken == 0 {
			other := Acquire + Release - kind
			o := &open[other]
			for len(o.certain) > 0 && done[o.certain[0].op] {
				heap.Pop(&o.certain)
			}
			switch {
			case len(o.certain) > 0:
				done[heap.Pop(&o.certain).(deadline).op] = true
			case o.unsure > 0:
				o.unsure--
			case kind == Acquire:
				return illegal([]int{int(must.ref)}, "operation %d acquires at the latest at time %d, when all is taken", must.ref, must.time)
			default:
				return illegal([]int{int(must.ref)}, "operation %d releases at the latest at time %d, when nothing is taken", must.ref, must.time)
			}
			happen(other)
		}
		happen(kind)
		done[must.ref] = true
	}
	return legal()
}

// deadline is an operation and the time at which it must have happened.
type deadline struct {
	time int64
	op   int32
}

// soonest is a heap of deadlines.
type soonest []deadline

func (s soonest) Len() int           { return len(s) }
func (s soonest) Less(i, j int) bool { return s[i].time < s[j].time }
func (s soonest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *soonest) Push(x any)        { *s = append(*s, x.(deadline)) }
func (s *soonest) Pop() any {
	last := len(*s) - 1
	d := (*s)[last]
	*s = (*s)[:last]
	return d
}
