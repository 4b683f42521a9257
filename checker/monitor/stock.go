package monitor

import "container/heap"

// StockKind of a [StockOp].
type StockKind uint8

const (
	Buy StockKind = iota + 1
	Read
)

// StockOp is an operation on a counter of units.
type StockOp struct {
	Invoke, Return int64
	// Value is what a successful read returned, or what a successful buy or one
	// that was told "sold out" saw before; Known says that it is meant. That of
	// an operation of unknown outcome is not looked at.
	Value   int64
	Key     int32
	Kind    StockKind
	Outcome Outcome
	Known   bool
}

// Stock judges a counter of units that are bought one at a time. There are initial
// units of each key at first.
//
//	buy  ok    legal if units are left (as many as Value, if known); then one fewer
//	     fail  "sold out": legal if none is left
//	read ok    legal if Value units are left; a read without a value says nothing
//
// A buy of unknown outcome may sell a unit, once, from its invocation on. Reads that
// fail or have no outcome say nothing.
func Stock(ops []StockOp, initial int64) Verdict {
	if initial < 0 {
		return unknown(nil, "a stock of %d units", initial)
	}
	return eachKey(ops, stockKey, func(ops []StockOp) Verdict {
		c := counter{ops: ops, units: initial}
		return c.judge(func(op *StockOp) (int64, bool) { return initial - op.Value, true })
	})
}

// Wallet judges a balance from which the same amount is withdrawn each time, which is
// a stock of initial/amount units. Value is the balance.
//
// A wallet with different amounts has no such structure: which sets of withdrawals
// explain a balance is a subset-sum problem. See [SameAmount].
func Wallet(ops []StockOp, initial, amount int64) Verdict {
	if amount <= 0 || initial < 0 {
		return unknown(nil, "withdrawing %d from %d", amount, initial)
	}
	return eachKey(ops, stockKey, func(ops []StockOp) Verdict {
		c := counter{ops: ops, units: initial / amount}
		return c.judge(func(op *StockOp) (int64, bool) {
			spent := initial - op.Value
			return spent / amount, spent%amount == 0
		})
	})
}

// SameAmount returns the one amount in a list of them, for [Wallet], or an Unknown
// verdict if they differ.
func SameAmount(amounts []int64) (int64, Verdict) {
	for i, a := range amounts {
		if a != amounts[0] {
			return 0, unknown([]int{0, i}, "withdrawals of %d and of %d: exact only if all are of the same amount", amounts[0], a)
		}
	}
	if len(amounts) == 0 {
		return 0, unknown(nil, "no withdrawals")
	}
	return amounts[0], legal()
}

// Counter judges a counter that is only ever incremented by one; it has the value
// initial at first. A Buy is an increment; its Value, if known, is the one before.
// An increment that failed did not happen.
func Counter(ops []StockOp, initial int64) Verdict {
	return eachKey(ops, stockKey, func(ops []StockOp) Verdict {
		c := counter{ops: ops, units: Never, unbounded: true}
		return c.judge(func(op *StockOp) (int64, bool) { return op.Value - initial, true })
	})
}

func stockKey(op *StockOp) int32 { return op.Key }

// counter follows how many units are gone. That number only grows, one by one, so it
// passes every value between two; and what was put off until it had to be gives the
// smallest number there can be at any moment.
type counter struct {
	ops       []StockOp
	units     int64
	unbounded bool // failed buys say nothing

	gone   int64   // units gone so far
	at     []int64 // when each of them went
	pinned []int32 // 1 + operation that took the unit of this rank, 0 for any
	rank   []int64 // operation → how many units were gone before; −1 for any
	done   []bool  // for operations of no known rank
	calls  []event // invocations of buys of no known rank, not yet open
	open   soonest // open ones that must happen
	unsure int     // open ones that may
}

// judge sweeps through the returns. gone tells how many units were gone when an
// operation saw its value, and whether that is a whole number.
func (c *counter) judge(gone func(*StockOp) (int64, bool)) Verdict {
	buys := 0
	for i := range c.ops {
		if c.ops[i].Kind == Buy {
			buys++
		}
	}
	c.at = make([]int64, 0, buys)
	c.pinned = make([]int32, buys)
	c.rank = make([]int64, len(c.ops))
	musts := make([]event, 0, len(c.ops))
	anyRank := false
	for i := range c.ops {
		op := &c.ops[i]
		c.rank[i] = -1
		switch {
		case op.Outcome < OK || op.Outcome > Info || op.Kind != Buy && op.Kind != Read:
			return unknown([]int{i}, "operation %d is of no known kind and outcome", i)
		case op.Outcome != Info && op.Return < op.Invoke:
			return unknown([]int{i}, "operation %d returns before it is invoked", i)
		case op.Kind == Read && (op.Outcome != OK || !op.Known), op.Outcome == Fail && c.unbounded:
			continue
		case op.Outcome == Info:
			c.calls = append(c.calls, event{time: op.Invoke, ref: int32(i)})
			continue
		}
		musts = append(musts, event{time: op.Return, ref: int32(i)})
		if !op.Known {
			if op.Outcome == Fail {
				c.rank[i] = c.units
			} else {
				anyRank = true
				c.calls = append(c.calls, event{time: op.Invoke, ref: int32(i)})
			}
			continue
		}
		rank, whole := gone(op)
		switch {
		case !whole || rank < 0 || rank > c.units:
			return illegal([]int{i}, "operation %d saw a value of %d, which there never is", i, op.Value)
		case op.Outcome == Fail && rank != c.units:
			return illegal([]int{i}, "operation %d was told that nothing is left, and saw %d", i, op.Value)
		case op.Kind == Buy && op.Outcome == OK && rank == c.units:
			return illegal([]int{i}, "operation %d bought when it saw that nothing is left", i)
		case rank > int64(buys), op.Kind == Buy && op.Outcome == OK && rank == int64(buys):
			return illegal([]int{i}, "operation %d saw a value of %d, for which more would have to be gone than was ever bought", i, op.Value)
		}
		c.rank[i] = rank
		if op.Kind == Buy && op.Outcome == OK {
			if other := c.pinned[rank]; other != 0 {
				return illegal([]int{int(other - 1), i}, "two buys saw the same value of %d", op.Value)
			}
			c.pinned[rank] = int32(i + 1)
		}
	}
	if anyRank {
		c.done = make([]bool, len(c.ops))
	}
	c.calls = sortEvents(c.calls)
	for _, must := range sortEvents(musts) {
		i := must.ref
		op := &c.ops[i]
		rank := c.rank[i]
		switch {
		case rank < 0:
			for !c.done[i] {
				if v := c.advance(i, must.time); v.Result != Legal {
					return v
				}
			}
		case op.Kind == Buy && op.Outcome == OK:
			for c.gone <= rank {
				if v := c.advance(i, must.time); v.Result != Legal {
					return v
				}
			}
		default:
			for c.gone < rank {
				if v := c.advance(i, must.time); v.Result != Legal {
					return v
				}
			}
			if c.gone > rank && c.at[rank] < op.Invoke {
				return illegal([]int{int(i)}, "operation %d saw that %d are gone, but %d were at time %d already", i, rank, rank+1, c.at[rank])
			}
		}
	}
	return legal()
}

// advance lets one more unit go, now, because operation for needs it.
func (c *counter) advance(need int32, now int64) Verdict {
	switch {
	case c.gone >= c.units:
		return illegal([]int{int(need)}, "operation %d needs one more unit to go than the %d there are", need, c.units)
	case c.gone >= int64(len(c.pinned)):
		return illegal([]int{int(need)}, "operation %d needs more units to be gone than were ever bought", need)
	}
	if by := c.pinned[c.gone] - 1; by >= 0 {
		if c.ops[by].Invoke > now {
			return illegal([]int{int(need), int(by)}, "operation %d needs a unit to be gone by time %d that operation %d bought later", need, now, by)
		}
		c.sell(now)
		return legal()
	}
	if c.rank[need] < 0 { // then it is itself the one due soonest
		c.done[need] = true
		c.sell(now)
		return legal()
	}
	for len(c.calls) > 0 && c.calls[0].time <= now {
		i := c.calls[0].ref
		c.calls = c.calls[1:]
		switch {
		case c.ops[i].Outcome == Info:
			c.unsure++
		case !c.done[i]:
			heap.Push(&c.open, deadline{c.ops[i].Return, i})
		}
	}
	for len(c.open) > 0 && c.done[c.open[0].op] {
		heap.Pop(&c.open)
	}
	switch {
	case len(c.open) > 0:
		c.done[heap.Pop(&c.open).(deadline).op] = true
	case c.unsure > 0:
		c.unsure--
	default:
		return illegal([]int{int(need)}, "operation %d needs more than %d units to be gone by time %d, when no more can have been bought", need, c.gone, now)
	}
	c.sell(now)
	return legal()
}

func (c *counter) sell(now int64) {
	c.at = append(c.at, now)
	c.gone++
}
