package models

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstress/checker/monitor"
	"lockstress/history"
)

const (
	// shrinkTests and shrinkTime bound the attempts to leave something out.
	shrinkTests = 5000
	shrinkTime  = 5 * time.Second
	cutTests    = 100
)

// shrink chooses operations of the illegal prefix x that are wrong by themselves.
func (t *translation) shrink(ctx context.Context, x *Counterexample, key int32, o *Options) {
	calls, start := only(t.prefix(x.Events), key), t.start
	method := "all other keys are left out"
	if len(t.keys) < 2 {
		method = ""
	}
	bounded, cancel := context.WithTimeout(ctx, shrinkTime)
	defer cancel()
	if t.m.cuts != nil {
		limits := *o
		if t.m.Name == "mutex" {
			limits.Permits = 1
		}
		cuts := t.m.cuts(calls, start, &limits)
		// The latest that leaves something wrong; the search for it gives up early.
		for i := len(cuts) - 1; i >= 0 && i >= len(cuts)-cutTests && bounded.Err() == nil; i-- {
			part := cuts[i].rest(calls)
			if v, _ := t.m.judge(bounded, part, cuts[i].state, o); v.Result == monitor.Illegal {
				calls, start = part, cuts[i].state
				method = "all that ended earlier is left out, and what it leads to is put in its place: " + t.describe(start)
				break
			}
		}
	}
	if t.m.units != nil {
		calls, x.Needed = t.leaveOut(bounded, calls, start, o)
		if method != "" {
			method += "; "
		}
		method += t.m.omits
	}
	if v, _ := t.m.judge(ctx, calls, start, o); v.Result != monitor.Illegal {
		return // never show what was not seen to be wrong
	}
	x.Method = method
	for i := range calls {
		x.Steps = append(x.Steps, t.step(calls[i].op, x.Events))
	}
	// The last event may be a failure, after which its operation is out of question:
	// that is what made the rest illegal.
	for i := range t.ops {
		if op := &t.ops[i]; op.Last == x.Events-1 && t.fails[i] {
			x.Steps = append(x.Steps, t.step(i, x.Events))
		}
	}
	slices.SortFunc(x.Steps, func(a, b Step) int { return a.Invoked - b.Invoked })
}

// describe says a state in words.
func (t *translation) describe(s state) string {
	switch {
	case t.m.words["write"] != 0:
		return "the value is " + t.values[s.n]
	case t.m.words["acquire"] == 0:
		return fmt.Sprintf("the value is %d", s.n)
	case t.m.Name != "mutex":
		return fmt.Sprintf("%d permits are taken", s.n)
	case s.n > 0:
		return "the lock is taken"
	}
	return "the lock is free"
}

// leaveOut leaves out units, in halves, quarters and so on to single ones, until none can
// go. It returns false if it ran out of time before.
func (t *translation) leaveOut(ctx context.Context, calls []call, start state, o *Options) ([]call, bool) {
	tests := 0
	illegal := func(calls []call) bool {
		tests++
		v, _ := t.m.judge(ctx, calls, start, o)
		return v.Result == monitor.Illegal
	}
	for {
		units := t.m.units(calls)
		before := len(calls)
		gone := make([]bool, len(calls))
		for size := max(len(units)/2, 1); ; size /= 2 {
			for from := 0; from < len(units); {
				if ctx.Err() != nil || tests > shrinkTests {
					return rest(calls, gone), false
				}
				to := min(from+size, len(units))
				try := slices.Clone(gone)
				for _, unit := range units[from:to] {
					for _, i := range unit {
						try[i] = true
					}
				}
				if illegal(rest(calls, try)) {
					gone = try
					units = slices.Delete(units, from, to)
				} else {
					from = to
				}
			}
			if size <= 1 {
				break
			}
		}
		if calls = rest(calls, gone); len(calls) == before {
			return calls, true
		}
	}
}

func rest(calls []call, gone []bool) []call {
	var kept []call
	for i := range calls {
		if !gone[i] {
			kept = append(kept, calls[i])
		}
	}
	return kept
}

// unitsByHold groups by hold. Without a hold's operations the lock is free while it would
// have had it, and nothing else needs it to be taken: a failed acquire is not judged.
func unitsByHold(calls []call) [][]int {
	// Holds as the monitor numbers them; they mean nothing if a process went on
	// after an unknown outcome, or if its calls could be either way round.
	if !assignHolds(calls) || touch(calls) {
		return nil
	}
	return group(calls, func(c *call) int64 { return c.hold })
}

// unitsByNest groups what a process does from its outermost acquire to the release that
// ends it.
func unitsByNest(calls []call) [][]int {
	next := int64(0)
	exact := eachPlace(calls, func(i int, t *tally) bool {
		c := &calls[i]
		if t.depth == 0 {
			next++
			t.hold = next
		}
		c.hold = t.hold
		if c.kind == acquire {
			t.depth++
		} else {
			t.depth = max(t.depth-1, 0)
		}
		return true
	})
	if !exact {
		return nil
	}
	return group(calls, func(c *call) int64 { return c.hold })
}

// unitsByRead has each read by itself: it changes nothing.
func unitsByRead(calls []call) [][]int {
	var units [][]int
	for i := range calls {
		if calls[i].kind == read {
			units = append(units, []int{i})
		}
	}
	return units
}

// unitsByValue has reads, and the reads and writes of a value together: between the write
// of another value and its reads nothing was written, and so it remains.
func unitsByValue(calls []call) [][]int {
	return append(group(calls, func(c *call) int64 { return c.a }), unitsByRead(calls)...)
}

func group(calls []call, by func(*call) int64) [][]int {
	var units [][]int
	at := map[int64]int{}
	for i := range calls {
		g := by(&calls[i])
		n, ok := at[g]
		if !ok {
			n = len(units)
			at[g] = n
			units = append(units, nil)
		}
		units[n] = append(units[n], i)
	}
	return units
}

// step tells what is known of an operation after so many events.
func (t *translation) step(i, events int) Step {
	op := &t.ops[i]
	first := &t.h.Events[op.First]
	s := Step{
		Process: op.Process, F: op.F, Key: op.Key, Input: op.Input,
		Outcome: history.Info, Invoked: first.Position, Returned: -1, Line: first.Line,
	}
	if op.Last >= 0 && op.Last < events {
		s.Outcome, s.Output, s.Error = op.Outcome, op.Output, op.Error
		s.Returned, s.Ignored = t.h.Events[op.Last].Position, t.fails[i]
	}
	return s
}
