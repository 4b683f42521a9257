package models

import (
	"lockstress/checker/monitor"
)

// place is where a process stands with one lock.
type place struct {
	owner, key int32
}

// tally follows one process and one lock.
type tally struct {
	hold   int64 // of its latest outermost acquire
	depth  int   // how often it has the lock, if everything went as it was told
	ended  int64 // return of its latest call
	begun  bool
	unsure bool // its latest call may have happened or not
}

// eachPlace goes through the calls of owners in order. It returns false if some process
// went on after a call of unknown outcome: what it did then may concern the one hold or
// the other, and a monitor of holds would be stricter than the model.
func eachPlace(calls []call, visit func(i int, t *tally) bool) bool {
	places := map[place]*tally{}
	for i := range calls {
		c := &calls[i]
		t := places[place{c.owner, c.key}]
		if t == nil {
			t = &tally{}
			places[place{c.owner, c.key}] = t
		}
		if t.unsure || t.begun && c.invoke < t.ended {
			return false
		}
		t.begun, t.unsure, t.ended = true, c.unsure, c.ret
		if !visit(i, t) {
			return false
		}
	}
	return true
}

// assignHolds gives every acquire a hold of its own, and releases and extensions that of
// the process's latest acquire, which is the only one that it can have. What a process
// does that never acquired gets a hold that nobody acquired.
func assignHolds(calls []call) bool {
	next := int64(0)
	return eachPlace(calls, func(i int, t *tally) bool {
		if calls[i].kind == acquire || t.hold == 0 {
			next++
			t.hold = next
		}
		calls[i].hold = t.hold
		return true
	})
}

func lockOp(c *call, k monitor.Kind) monitor.LockOp {
	op := monitor.LockOp{Invoke: c.invoke, Return: c.ret, Hold: c.hold, Key: c.key, Kind: k, Outcome: monitor.OK}
	if c.unsure {
		op.Outcome = monitor.Info
	}
	return op
}

var lockKinds = map[kind]monitor.Kind{acquire: monitor.Acquire, release: monitor.Release, extend: monitor.Extend}

func lockOps(calls []call) (ops []monitor.LockOp, tokens []int64) {
	ops = make([]monitor.LockOp, len(calls))
	tokens = make([]int64, len(calls))
	for i := range calls {
		ops[i] = lockOp(&calls[i], lockKinds[calls[i].kind])
		tokens[i] = calls[i].token
	}
	return ops, tokens
}

// unjudged: answers of failed calls have been left out by then.
var unjudged = monitor.LockRules{IgnoreBusy: true, IgnoreNotHeld: true}

func monitorSemaphore(calls []call, o *Options) (monitor.Verdict, bool) {
	for i := range calls {
		if calls[i].a > 1 {
			return monitor.Verdict{}, false
		}
	}
	ops, _ := lockOps(calls)
	return monitor.Semaphore(ops, o.Permits), true
}

func monitorOwner(calls []call, _ *Options) (monitor.Verdict, bool) {
	if !assignHolds(calls) {
		return monitor.Verdict{}, false
	}
	ops, _ := lockOps(calls)
	return monitor.Lock(ops, unjudged), true
}

func monitorFenced(calls []call, _ *Options) (monitor.Verdict, bool) {
	if !assignHolds(calls) {
		return monitor.Verdict{}, false
	}
	ops, tokens := lockOps(calls)
	v := monitor.FencedLock(ops, tokens, unjudged)
	return v, v.Result != monitor.Unknown
}

func monitorLease(calls []call, o *Options) (monitor.Verdict, bool) {
	if !assignHolds(calls) {
		return monitor.Verdict{}, false
	}
	ops, _ := lockOps(calls)
	v := monitor.Lease(ops, monitor.LeaseRules{LockRules: unjudged, TTL: int64(o.TTL), Margin: int64(o.Margin)})
	// Holds take the calls of a process in the order of the file, also where by a
	// coarse clock they touch, so that by time alone they could be either way round.
	return v, v.Result != monitor.Illegal || !touch(calls)
}

// touch says whether a call begins at the very time at which the process's one before
// it returned.
func touch(calls []call) bool {
	touching := false
	ended := map[place]int64{}
	for i := range calls {
		at := place{calls[i].owner, calls[i].key}
		if was, ok := ended[at]; ok && was == calls[i].invoke {
			touching = true
		}
		ended[at] = calls[i].ret
	}
	return touching
}

// monitorReentrant makes a lock without re-entry of one with: the outermost acquire and
// release are those of a hold, and what is between shows that it is still held.
func monitorReentrant(calls []call, o *Options) (monitor.Verdict, bool) {
	var ops []monitor.LockOp
	var of []int // LockOp → call
	var wrong *monitor.Verdict
	refute := func(i int, reason string) bool {
		wrong = &monitor.Verdict{Result: monitor.Illegal, Reason: reason, Key: calls[i].key, Witness: []int{i}}
		return false
	}
	next := int64(0)
	exact := eachPlace(calls, func(i int, t *tally) bool {
		c := &calls[i]
		k := monitor.Extend
		switch c.kind {
		case acquire:
			if t.depth == 0 {
				k = monitor.Acquire
				next++
				t.hold = next
			}
			if t.depth++; o.Depth > 0 && t.depth > o.Depth && !c.unsure {
				return refute(i, "a process holds the lock more often at once than it may")
			}
		case release:
			if t.depth--; t.depth == 0 {
				k = monitor.Release
			}
			if t.depth < 0 {
				t.depth = 0
				if c.unsure {
					return true // it cannot have happened
				}
				return refute(i, "a process releases a lock that it does not have")
			}
		}
		c.hold = t.hold
		if k == monitor.Extend && c.unsure {
			return true // nothing depends on whether it happened
		}
		ops = append(ops, lockOp(c, k))
		of = append(of, i)
		return true
	})
	if wrong != nil {
		return *wrong, true
	}
	if !exact {
		return monitor.Verdict{}, false
	}
	v := monitor.Lock(ops, unjudged)
	for i := range v.Witness {
		v.Witness[i] = of[v.Witness[i]]
	}
	return v, true
}

// monitorCounter makes a wallet of a counter that is changed by the same amount each
// time: so much in it that it never runs out, and withdrawals for additions.
func monitorCounter(calls []call, o *Options) (monitor.Verdict, bool) {
	const limit = 1 << 40
	amount, adds := int64(0), int64(0)
	for i := range calls {
		c := &calls[i]
		switch {
		case c.kind == add && c.a == 0:
		case c.kind == add && amount != 0 && c.a != amount:
			return monitor.Verdict{}, false
		case c.kind == add:
			amount = c.a
			adds++
		case c.a > limit || c.a < -limit:
			return monitor.Verdict{}, false
		}
	}
	if amount == 0 {
		amount = 1
	}
	sign := int64(1)
	if amount < 0 {
		sign, amount = -1, -amount
	}
	if amount > limit/(adds+1) {
		return monitor.Verdict{}, false
	}
	full := (adds + 1) * amount
	// What a read that is off by more than all additions found is beyond a wallet's
	// means to say; any impossible balance does.
	ops := make([]monitor.StockOp, 0, len(calls))
	var of []int
	for i := range calls {
		c := &calls[i]
		op := monitor.StockOp{Invoke: c.invoke, Return: c.ret, Key: c.key, Kind: monitor.Buy, Outcome: monitor.OK}
		switch {
		case c.kind == read:
			rise := (c.a - o.initial) * sign
			if rise < 0 || rise > adds*amount {
				return monitor.Verdict{
					Result: monitor.Illegal, Key: c.key, Witness: []int{i},
					Reason: "a read returns a value that no number of additions can make",
				}, true
			}
			op.Kind, op.Value, op.Known = monitor.Read, full-rise, true
		case c.a == 0:
			continue
		case c.unsure:
			op.Outcome = monitor.Info
		}
		ops = append(ops, op)
		of = append(of, i)
	}
	v := monitor.Wallet(ops, full, amount)
	for i := range v.Witness {
		v.Witness[i] = of[v.Witness[i]]
	}
	return v, v.Result != monitor.Unknown
}
