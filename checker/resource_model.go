package checker

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
)

// purchase is an operation of the resource model.
type purchase struct {
	entryKind
	key    string
	value  int64
	known  bool
	amount int64
	// gap tells from which values an uncertain sale can have been made; nil for any.
	gap  func(value int64) bool
	over bool // not a purchase: the end, after which uncertain sales need not happen
	text string
}

// stock is a state of the resource model.
type stock struct {
	left int64
	over bool
}

// resourceModel is a number that sales take from, for Porcupine. An uncertain sale has
// no end; that it never happened is the same as that it comes after the end of all
// else, where it does nothing.
func resourceModel(initial int64) porcupine.Model {
	return porcupine.Model{
		Partition: byKey(func(in any) string { return in.(purchase).key }),
		Init:      func() any { return stock{left: initial} },
		Step: func(state, input, _ any) (bool, any) {
			s, in := state.(stock), input.(purchase)
			sold := stock{s.left - in.amount, s.over}
			seen := !in.known || s.left == in.value
			switch {
			case in.over:
				return true, stock{s.left, true}
			case in.entryKind == maybe && s.over:
				return true, s
			case in.entryKind == maybe && in.gap != nil && !in.gap(s.left):
				return false, s
			case in.entryKind == look:
				return seen, s
			case in.entryKind == empty:
				return seen && s.left < in.amount, s
			}
			return seen && s.left >= in.amount, sold
		},
		Hash:              func(state any) uint64 { return uint64(state.(stock).left) * 0x9e3779b97f4a7c15 },
		DescribeOperation: func(input, _ any) string { return input.(purchase).text },
		DescribeState: func(state any) string {
			if s := state.(stock); s.over {
				return fmt.Sprintf("%d left, at the end", s.left)
			}
			return fmt.Sprintf("%d left", state.(stock).left)
		},
	}
}

// resourceOps translates all ledgers of a history, settled where they can be.
func (v *view) resourceOps() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, l := range v.ledgers() {
		ops = append(ops, v.ledgerOps(l)...)
	}
	return ops
}

func (v *view) ledgerOps(l *ledger) []porcupine.Operation {
	var gap func(int64) bool
	usable := !l.blind()
	for i := range l.entries {
		usable = usable && !l.absurd(&l.entries[i])
	}
	if usable {
		s := l.settle()
		l, gap = s.ledger, s.gap
	}
	var ops []porcupine.Operation
	last, uncertain := int64(0), false
	for _, e := range l.entries {
		ops = append(ops, porcupine.Operation{
			ClientId: e.op.Process, Call: e.call, Return: e.ret,
			Input: purchase{entryKind: e.kind, key: l.key, value: e.value, known: e.known, amount: l.amount, gap: gap, text: v.describe(e.op)},
		})
		last = max(last, e.call)
		if e.ret != history.Never {
			last = max(last, e.ret)
		}
		uncertain = uncertain || e.kind == maybe
	}
	if uncertain {
		ops = append(ops, porcupine.Operation{
			ClientId: history.Nemesis, Call: last + 1, Return: last + 1,
			Input: purchase{key: l.key, over: true, text: "the end"},
		})
	}
	return ops
}
