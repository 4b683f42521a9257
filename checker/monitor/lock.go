package monitor

// Kind of a [LockOp].
type Kind uint8

const (
	Acquire Kind = iota + 1
	Release
	Extend // of a lease
)

// LockOp is an operation on a lock.
type LockOp struct {
	Invoke, Return int64
	// Hold is the token of the hold: every acquire has one of its own, and the
	// releases and extensions of what it was granted carry it too.
	Hold int64
	// Deadline is the moment until which a lock says that what it granted or
	// extended lasts, 0 if it does not say. It counts in a [Lease] only, in
	// place of Invoke + TTL: an acquire that had to wait was invoked long before.
	Deadline int64
	Key      int32
	Kind     Kind
	Outcome  Outcome
}

// LockRules say what is judged.
type LockRules struct {
	// IgnoreBusy leaves out acquires that failed. A lock over several servers
	// may refuse though nobody holds it.
	IgnoreBusy bool
	// IgnoreNotHeld leaves out releases and extensions that failed: a failed
	// operation did not happen, and its answer is not judged (Jepsen's rule).
	IgnoreNotHeld bool
	// MaxStates bounds the possible states kept; 0 means [DefaultStates]. More
	// than that, and the verdict is Unknown.
	MaxStates int
}

// DefaultStates is the bound on possible states if none is given.
const DefaultStates = 4096

// LeaseRules add time to a lock.
type LeaseRules struct {
	LockRules
	// TTL and Margin are in the unit of the operations' times. A hold may end
	// by itself from Deadline − Margin on, or where none is stated from
	// Invoke + TTL − Margin: the latest such moment of its acquire and the
	// extensions that took effect.
	TTL, Margin int64
	// Latest demands that the hold has ended by Return + TTL + Margin, or by
	// Deadline + Margin if that is later: the latest such moment of the same
	// operations. Servers whose clock slows down, jumps back
	// or is not replicated break this without breaking mutual exclusion.
	Latest bool
}

// Lock judges a lock with owners. The lock is free at first.
//
//	acquire(h)  ok    legal if free; then held by h
//	            fail  legal if not free
//	release(h)  ok    legal if held by h; then free
//	            fail  legal if not held by h
//
// A hold is acquired at most once. Extensions observe like a release, and leave the
// lock as it is.
func Lock(ops []LockOp, rules LockRules) Verdict {
	return eachKey(ops, lockKey, func(ops []LockOp) Verdict {
		return sweepLock(ops, rules, nil)
	})
}

// Lease judges a lock whose holds end by themselves: [Lock], and at any moment that
// the rules allow, held by h may become free.
func Lease(ops []LockOp, rules LeaseRules) Verdict {
	if rules.TTL < 0 || rules.Margin < 0 {
		return unknown(nil, "a lease with a TTL of %d and a margin of %d is none", rules.TTL, rules.Margin)
	}
	return eachKey(ops, lockKey, func(ops []LockOp) Verdict {
		return sweepLock(ops, rules.LockRules, &rules)
	})
}

func lockKey(op *LockOp) int32 { return op.Key }

func sweepLock(ops []LockOp, rules LockRules, lease *LeaseRules) Verdict {
	t, v := newTenures(ops, rules, lease)
	if v.Result != Legal {
		return v
	}
	return newSweep(t, rules).run()
}

// stated says whether the lock stated a deadline. Others may be 0 or not meant; times may
// be negative too.
func (op *LockOp) stated() bool { return op.Outcome == OK && op.Deadline != 0 }

// earliest is when the segment of a lease that op began may end.
func (r *LeaseRules) earliest(op *LockOp) int64 {
	if op.stated() {
		return after(op.Deadline, -r.Margin)
	}
	return after(op.Invoke, r.TTL-r.Margin)
}

// latest is when the segment of a lease that op began must have ended.
func (r *LeaseRules) latest(op *LockOp) int64 {
	end := after(op.Return, r.TTL)
	if op.stated() {
		end = max(end, op.Deadline)
	}
	return after(end, r.Margin)
}
