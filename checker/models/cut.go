package models

import (
	"cmp"
	"slices"
)

// cut is a moment up to which everything that has returned can be left out, and a state
// to begin with instead: if the whole is legal, what remains is legal from that state.
type cut struct {
	after int64
	state state
}

// rest returns what has to be looked at after the cut: what returned later. Of that, a
// read invoked before may have looked before, and is left out too.
func (x *cut) rest(calls []call) []call {
	var kept []call
	for _, c := range calls {
		if c.ret > x.after && (c.kind != read || c.invoke > x.after) {
			kept = append(kept, c)
		}
	}
	return kept
}

// moment is an invocation or a return.
type moment struct {
	time    int64
	returns bool
	call    int
}

func moments(calls []call) []moment {
	list := make([]moment, 0, 2*len(calls))
	for i := range calls {
		list = append(list, moment{calls[i].invoke, false, i})
		if !calls[i].unsure {
			list = append(list, moment{calls[i].ret, true, i})
		}
	}
	slices.SortStableFunc(list, func(a, b moment) int { return cmp.Compare(a.time, b.time) })
	return list
}

// cutPermits: what has returned has happened, and is counted. What is under way stays, and
// if some of it has happened already, it can as well happen now: one permit at a time
// there is always an order in which it fits. With several at a time there need not be.
func cutPermits(calls []call, s state, o *Options) []cut {
	var cuts []cut
	single := !slices.ContainsFunc(calls, func(c call) bool { return c.a > 1 })
	open := 0
	for _, m := range moments(calls) {
		c := &calls[m.call]
		if !m.returns {
			open++
			continue
		}
		open--
		if c.kind == acquire {
			s.n += max(c.a, 1)
		} else {
			s.n -= max(c.a, 1)
		}
		if s.n >= 0 && s.n <= int64(o.Permits) && (single || open == 0) {
			cuts = append(cuts, cut{m.time, s})
		}
	}
	return cuts
}

// cutCounter: what was added and has returned is counted; what is under way can as well
// be added now.
func cutCounter(calls []call, s state, _ *Options) []cut {
	var cuts []cut
	for _, m := range moments(calls) {
		if c := &calls[m.call]; c.kind == add && m.returns {
			s.n += c.a
			cuts = append(cuts, cut{m.time, s})
		}
	}
	return cuts
}

// cutRegister: what one operation left or found, while no other was under way that could
// change it, is there when it returns.
func cutRegister(calls []call, _ state, _ *Options) []cut {
	var cuts []cut
	open, begun := 0, 0 // of those that change the value
	alone := make([]int, len(calls))
	for _, m := range moments(calls) {
		c := &calls[m.call]
		changes := 0
		if c.kind != read {
			changes = 1
		}
		if !m.returns {
			alone[m.call] = -1
			if open == 0 {
				alone[m.call] = begun + changes
			}
			open += changes
			begun += changes
			continue
		}
		open -= changes
		if alone[m.call] != begun {
			continue
		}
		s := state{n: c.a}
		if c.kind == cas {
			s.n = c.b
		}
		cuts = append(cuts, cut{m.time, s})
	}
	return cuts
}
