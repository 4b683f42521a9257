package monitor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A second search, written without Porcupine and unlike it: it knows the time. A state
// carries the earliest moment that it can be, so leases end in it by themselves rather
// than by operations nobody made, and operations of unknown outcome are left out for
// good instead of being put last.

// timed is an operation for search.
type timed struct {
	invoke, ret int64
	maybe       bool
}

// search reports whether there is an order of the operations that step accepts. step
// gives the states in which an operation may leave a state. It gives up, and reports
// so, after a number of states.
func search[S comparable](ops []timed, initial S, step func(S, int) []S, budget int) (found, gaveUp bool) {
	type node struct {
		done  uint64
		state S
	}
	var must uint64
	for i := range ops {
		if !ops[i].maybe {
			must |= 1 << i
		}
	}
	seen := map[node]bool{}
	var visit func(node) bool
	visit = func(n node) bool {
		if n.done&must == must {
			return true
		}
		if seen[n] {
			return false
		}
		if len(seen) >= budget {
			gaveUp = true
			return false
		}
		seen[n] = true
		soonest := int64(Never)
		for i := range ops {
			if n.done&(1<<i) == 0 && !ops[i].maybe {
				soonest = min(soonest, ops[i].ret)
			}
		}
		for i := range ops {
			if n.done&(1<<i) != 0 || ops[i].invoke > soonest {
				continue
			}
			for _, next := range step(n.state, i) {
				if visit(node{n.done | 1<<i, next}) {
					return true
				}
			}
		}
		return false
	}
	found = visit(node{state: initial})
	return found, gaveUp && !found
}

// budget of states: more of them for a longer run, so that fewer histories are skipped.
func budget() int { return min(300_000, 40*max(*longN, 500)) }

type timedLock struct {
	holder      int64
	now         int64
	early, late int64
}

// secondLock is Lock, or Lease with a lease.
func secondLock(all []LockOp, rules LockRules, lease *LeaseRules) (Result, bool) {
	ops := slices.DeleteFunc(slices.Clone(all), func(op LockOp) bool {
		return op.Outcome == Fail && (op.Kind == Acquire && rules.IgnoreBusy || op.Kind != Acquire && rules.IgnoreNotHeld)
	})
	list := make([]timed, len(ops))
	for i, op := range ops {
		list[i] = timed{op.Invoke, op.Return, op.Outcome == Info}
	}
	const free = math.MinInt64
	do := func(s timedLock, op *LockOp) (timedLock, bool) {
		s.now = max(s.now, op.Invoke)
		mine := s.holder == op.Hold
		if s.now > op.Return || s.holder != free && s.now > s.late {
			return s, false
		}
		if op.Outcome == Fail {
			return s, op.Kind == Acquire && s.holder != free || op.Kind != Acquire && !mine
		}
		// It takes effect: that of unknown outcome which does not is left out.
		switch op.Kind {
		case Acquire:
			if s.holder != free {
				return s, false
			}
			s.holder, s.early, s.late = op.Hold, math.MinInt64, math.MinInt64
		case Release:
			s.holder = free
			return s, mine
		case Extend:
			if !mine {
				return s, false
			}
		}
		if lease == nil {
			s.early, s.late = Never, Never
			return s, true
		}
		ends := op.Invoke + lease.TTL
		if op.Deadline != 0 && op.Outcome != Info {
			ends = op.Deadline
		}
		s.early = max(s.early, ends-lease.Margin)
		if lease.Latest {
			s.late = max(s.late, ends+lease.Margin, after(op.Return, lease.TTL+lease.Margin))
		} else {
			s.late = Never
		}
		return s, true
	}
	found, gaveUp := search(list, timedLock{holder: free, now: math.MinInt64}, func(s timedLock, i int) []timedLock {
		var next []timedLock
		if n, ok := do(s, &ops[i]); ok {
			next = append(next, n)
		}
		if lease != nil && s.holder != free {
			e := s
			e.now, e.holder = max(s.now, s.early), free
			if e.now <= s.late {
				e.early, e.late = 0, 0
				if n, ok := do(e, &ops[i]); ok {
					next = append(next, n)
				}
			}
		}
		return next
	}, budget())
	return resultOf(found), gaveUp
}

func resultOf(found bool) Result {
	if found {
		return Legal
	}
	return Illegal
}

func secondSemaphore(all []LockOp, n int) (Result, bool) {
	ops := slices.DeleteFunc(slices.Clone(all), func(op LockOp) bool { return op.Outcome == Fail || op.Kind == Extend })
	list := make([]timed, len(ops))
	for i, op := range ops {
		list[i] = timed{op.Invoke, op.Return, op.Outcome == Info}
	}
	found, gaveUp := search(list, 0, func(taken, i int) []int {
		if ops[i].Kind == Acquire && taken < n {
			return []int{taken + 1}
		}
		if ops[i].Kind == Release && taken > 0 {
			return []int{taken - 1}
		}
		return nil
	}, budget())
	return resultOf(found), gaveUp
}

func secondStock(all []StockOp, initial, amount int64) (Result, bool) {
	ops := slices.DeleteFunc(slices.Clone(all), func(op StockOp) bool { return op.Kind == Read && (op.Outcome != OK || !op.Known) })
	list := make([]timed, len(ops))
	for i, op := range ops {
		list[i] = timed{op.Invoke, op.Return, op.Outcome == Info}
	}
	found, gaveUp := search(list, initial, func(left int64, i int) []int64 {
		op := &ops[i]
		switch enough := left >= amount; {
		case op.Outcome != Info && op.Known && op.Value != left:
		case op.Kind == Read, op.Outcome == Fail && !enough:
			return []int64{left}
		case op.Outcome != Fail && enough:
			return []int64{left - amount}
		}
		return nil
	}, budget())
	return resultOf(found), gaveUp
}

// agreeLong compares verdicts on histories that are too long for chance to be small.
func agreeLong[T any](t *testing.T, generate func(*rand.Rand) T, monitor func(T) Verdict, second func(T) (Result, bool), print func(T) string) {
	t.Parallel()
	var count tally
	for i := range *longN {
		h := generate(sourceOf(1_000_000_000 + i))
		got := monitor(h)
		want, gaveUp := second(h)
		if gaveUp {
			count.skipped++
			continue
		}
		count.add(got.Result)
		if got.Result != want {
			t.Fatalf("history %d of seed %d: the monitor says %v (%s), the search %v\n%s", i, *seed, got.Result, got.Reason, want, print(h))
		}
	}
	count.check(t)
	if count.skipped*5 > *longN {
		t.Errorf("the search gave up on %d of %d", count.skipped, *longN)
	}
}

func TestLongLock(t *testing.T) {
	agreeLong(t, func(r *rand.Rand) lockCase {
		s := longShape(r)
		return lockCase{ops: lockHistory(r, &s, false), rules: s.rules(r)}
	}, func(c lockCase) Verdict { return Lock(c.ops, c.rules.LockRules) },
		func(c lockCase) (Result, bool) { return secondLock(c.ops, c.rules.LockRules, nil) }, printLock)
}

func TestLongLease(t *testing.T) {
	agreeLong(t, func(r *rand.Rand) lockCase {
		s := longShape(r)
		ops := lockHistory(r, &s, true)
		return lockCase{ops: ops, rules: s.rules(r)}
	}, func(c lockCase) Verdict { return Lease(c.ops, c.rules) },
		func(c lockCase) (Result, bool) { return secondLock(c.ops, c.rules.LockRules, &c.rules) }, printLock)
}

func TestLongSemaphore(t *testing.T) {
	agreeLong(t, func(r *rand.Rand) lockCase {
		s := longShape(r)
		return lockCase{ops: lockHistory(r, &s, false), n: 1 + r.IntN(4)}
	}, func(c lockCase) Verdict { return Semaphore(c.ops, c.n) },
		func(c lockCase) (Result, bool) { return secondSemaphore(c.ops, c.n) }, printLock)
}

func TestLongStock(t *testing.T) {
	agreeLong(t, func(r *rand.Rand) stockCase { return stockCaseOf(r, longShape(r), false) },
		func(c stockCase) Verdict { return Stock(c.ops, c.initial) },
		func(c stockCase) (Result, bool) { return secondStock(c.ops, c.initial, 1) }, printStock)
}

func TestLongWallet(t *testing.T) {
	agreeLong(t, func(r *rand.Rand) stockCase { return stockCaseOf(r, longShape(r), true) },
		func(c stockCase) Verdict { return Wallet(c.ops, c.initial, c.amount) },
		func(c stockCase) (Result, bool) { return secondStock(c.ops, c.initial, c.amount) }, printStock)
}
