package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
)

// Kinds of steps in the lock model.
type lockStep uint8

const (
	grant  lockStep = iota // legal iff the lock is free or its holder's own
	extend                 // legal iff held; the lease now ends with this segment
	free                   // frees the lock, which must be held
	expire                 // frees the lock, which must be held and in this segment
	over                   // the end, after which free and expire do nothing
)

// lockInput is an operation of the lock model. The model is the same for mutex and
// lease; they differ in which operations a history is translated to.
type lockInput struct {
	step    lockStep
	key     string
	owner   int
	hold    int64
	segment int // which acquire (0) or extension (from 1, by invocation) the lease is from
	text    string
}

// held is a state of one lock: by whom it is held, and in which holds. Free if grips
// is empty. A state is never changed once made.
type held struct {
	owner int
	grips []grip // by rising hold; more than one after a re-entry
	over  bool
}

type grip struct {
	hold    int64
	segment int
}

func (s *held) find(hold int64) (int, bool) {
	return slices.BinarySearchFunc(s.grips, hold, func(g grip, hold int64) int { return cmp.Compare(g.hold, hold) })
}

func (s *held) without(at int) *held {
	if len(s.grips) == 1 && !s.over {
		return unlocked
	}
	return &held{s.owner, slices.Delete(slices.Clone(s.grips), at, at+1), s.over}
}

var unlocked = &held{}

// lockModel is a lock with owners, for Porcupine.
//
// A release or expiry that finds nothing to free does nothing, and as it has no end it
// can be said to come last. The model insists on that: it is the same, and the search
// need not try to do nothing at every other moment.
var lockModel = porcupine.Model{
	Partition: byKey(func(in any) string { return in.(lockInput).key }),
	Init:      func() any { return unlocked },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(*held), input.(lockInput)
		at, has := s.find(in.hold)
		switch in.step {
		case grant:
			switch {
			case len(s.grips) == 0:
				return true, &held{in.owner, []grip{{hold: in.hold}}, s.over}
			case s.owner != in.owner:
				return false, s
			}
			return true, &held{s.owner, slices.Insert(slices.Clone(s.grips), at, grip{hold: in.hold}), s.over}
		case extend:
			if !has {
				return false, s
			}
			if s.grips[at].segment >= in.segment {
				return true, s // a later extension came first: the lease is its already
			}
			next := slices.Clone(s.grips)
			next[at].segment = in.segment
			return true, &held{s.owner, next, s.over}
		case expire:
			if has && s.grips[at].segment == in.segment {
				return true, s.without(at)
			}
		case free:
			if has {
				return true, s.without(at)
			}
		case over:
			return true, &held{s.owner, s.grips, true}
		}
		return s.over, s
	},
	Equal: func(a, b any) bool {
		s, t := a.(*held), b.(*held)
		return s == t || s.over == t.over && slices.Equal(s.grips, t.grips) && (len(s.grips) == 0 || s.owner == t.owner)
	},
	Hash: func(state any) uint64 {
		var h uint64
		for _, g := range state.(*held).grips {
			h = (h ^ uint64(g.hold)<<8 ^ uint64(g.segment)) * 0x9e3779b97f4a7c15
		}
		return h
	},
	DescribeOperation: func(input, _ any) string { return input.(lockInput).text },
	DescribeState: func(state any) string {
		s := state.(*held)
		if len(s.grips) == 0 {
			return "free"
		}
		var b strings.Builder
		b.WriteString("held:")
		for _, g := range s.grips {
			fmt.Fprintf(&b, " hold %d", g.hold)
			if g.segment > 0 {
				fmt.Fprintf(&b, ", extension %d", g.segment)
			}
		}
		return b.String()
	},
}

// byKey partitions operations: locks, and resources, of different keys have nothing
// to do with each other.
func byKey(key func(input any) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(ops []porcupine.Operation) [][]porcupine.Operation {
		at := map[string]int{}
		var parts [][]porcupine.Operation
		for _, op := range ops {
			k := key(op.Input)
			i, ok := at[k]
			if !ok {
				i = len(parts)
				at[k] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	}
}

// describe tells an operation to a person: "client 0: acquire hold 3 → ok".
func (v *view) describe(op *history.Operation) string {
	var b strings.Builder
	if c, role := v.h.Header.Client(op.Process); v.h.Header.Clients < 1 {
		fmt.Fprintf(&b, "process %d", op.Process)
	} else if role == history.HeartbeatRole {
		fmt.Fprintf(&b, "client %d (heartbeat)", c)
	} else if role == history.AuditorRole {
		b.WriteString("auditor")
	} else {
		fmt.Fprintf(&b, "client %d", c)
	}
	fmt.Fprintf(&b, ": %s", op.Op)
	if op.Hold != 0 {
		fmt.Fprintf(&b, " hold %d", op.Hold)
	}
	if op.Fence != 0 {
		fmt.Fprintf(&b, " token %d", op.Fence)
	}
	switch {
	case op.Outcome == history.Info:
		b.WriteString(" → unknown")
	case op.Known && op.Op != history.Acquire:
		fmt.Fprintf(&b, " → %s, saw %d", op.Outcome, op.Value)
	default:
		fmt.Fprintf(&b, " → %s", op.Outcome)
	}
	if op.Code != "" && op.Outcome == history.Fail {
		fmt.Fprintf(&b, " (%s)", op.Code)
	}
	return b.String()
}
