package monitor

import "lockstress/history"

// LockHistory is the part of a history that concerns locks.
type LockHistory struct {
	Ops    []LockOp
	Tokens []int64  // fencing token of each operation, 0 for none
	Index  []int    // operation → index into the operations it was made from
	Keys   []string // names of the keys
}

// Locks takes acquires, releases and extensions from a history. What failed for a
// reason that says nothing about the lock – a code other than [history.Busy] for an
// acquire, [history.NotHeld] for a release or an extension – is left out: it did not
// happen.
func Locks(ops []history.Operation) LockHistory {
	var l LockHistory
	number := map[string]int32{}
	for i := range ops {
		op := &ops[i]
		var k Kind
		says := history.NotHeld
		switch op.Op {
		case history.Acquire:
			k, says = Acquire, history.Busy
		case history.Release:
			k = Release
		case history.Extend:
			k = Extend
		default:
			continue
		}
		if op.Outcome == history.Fail && op.Code != says {
			continue
		}
		l.Ops = append(l.Ops, LockOp{
			Invoke: op.Invoke, Return: op.Return, Hold: op.Hold, Deadline: op.Deadline, Kind: k,
			Key: numberOf(op.Key, number, &l.Keys), Outcome: outcomeOf(op.Outcome),
		})
		l.Tokens = append(l.Tokens, op.Fence)
		l.Index = append(l.Index, i)
	}
	return l
}

// Grants returns the successful acquires that carry a token, and for each its index
// into the history's operations.
func (l *LockHistory) Grants() (grants []Grant, index []int) {
	for i := range l.Ops {
		op := &l.Ops[i]
		if op.Kind == Acquire && op.Outcome == OK && l.Tokens[i] != 0 {
			grants = append(grants, Grant{Invoke: op.Invoke, Return: op.Return, Token: l.Tokens[i], Key: op.Key})
			index = append(index, l.Index[i])
		}
	}
	return grants, index
}

// Expiry returns the lease rules that a header states, or false if holds of its lock
// do not expire.
func Expiry(h *history.Header) (LeaseRules, bool) {
	if !h.Expires {
		return LeaseRules{}, false
	}
	return LeaseRules{TTL: h.TTL, Margin: h.Margin}, true
}

// StockHistory is the part of a history that concerns a protected resource.
type StockHistory struct {
	Ops   []StockOp
	Index []int
	Keys  []string
}

// Stocks takes buys, withdrawals and reads from a history. A buy or withdrawal that
// failed with a code other than [history.SoldOut] did not happen and is left out. So
// is what one of unknown outcome saw before it was sent: it is no answer.
func Stocks(ops []history.Operation) StockHistory {
	var s StockHistory
	number := map[string]int32{}
	for i := range ops {
		op := &ops[i]
		k := Buy
		switch op.Op {
		case history.Buy, history.Withdraw:
			if op.Outcome == history.Fail && op.Code != history.SoldOut {
				continue
			}
		case history.Read:
			k = Read
			if op.Outcome != history.OK {
				continue
			}
		default:
			continue
		}
		s.Ops = append(s.Ops, StockOp{
			Invoke: op.Invoke, Return: op.Return, Value: op.Value, Known: op.Known, Kind: k,
			Key: numberOf(op.Key, number, &s.Keys), Outcome: outcomeOf(op.Outcome),
		})
		s.Index = append(s.Index, i)
	}
	return s
}

func numberOf(key string, number map[string]int32, keys *[]string) int32 {
	n, ok := number[key]
	if !ok {
		n = int32(len(*keys))
		number[key] = n
		*keys = append(*keys, key)
	}
	return n
}

func outcomeOf(t history.Type) Outcome {
	switch t {
	case history.OK:
		return OK
	case history.Fail:
		return Fail
	}
	return Info
}
