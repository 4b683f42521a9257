package monitor

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// state is one way in which everything up to now may have happened.
type state struct {
	holder int32 // index of a tenure, or one of the values below
	spare  int32 // phantoms that are past their own windows and were not used
	// since is when the holder's tenure began or, if the lock is free, when the
	// last one ended.
	since int64
	// begun has a bit for each loose tenure that has begun, while that matters.
	begun uint64
}

const (
	nobody   int32 = -1
	anybody  int32 = -2 // a phantom that may end at any time
	somebody int32 = -3 // a tenure of class forever
)

// sweep goes through the moments at which something must have happened, and puts off
// whatever need not have happened yet. What it keeps are states between which nothing
// seen so far can decide.
type sweep struct {
	*tenures
	limit, work   int
	peak          int // most states kept at once
	states, after []state
	used          uint64  // bits of state.begun that are taken
	arrived       int     // loose[:arrived] have been looked at
	active        []int32 // loose tenures whose window is open
	event         int     // index of the current event
	next          int     // index of the first mustStart from it on
	full          bool    // all bits are taken
}

func newSweep(t *tenures, rules LockRules) *sweep {
	s := &sweep{tenures: t, limit: rules.MaxStates}
	if s.limit <= 0 {
		s.limit = DefaultStates
	}
	// The bound on states alone would let a long history take hours.
	s.work = 64*len(t.events) + 50_000_000
	s.states = []state{{holder: nobody, since: math.MinInt64}}
	return s
}

func (s *sweep) run() Verdict {
	for i := range s.events {
		s.event = i
		ev := &s.events[i]
		s.work -= len(s.states)
		s.after = s.after[:0]
		switch ev.kind {
		case mustStart:
			s.mustStart(ev.ref, ev.time)
		case mustHaveBeen:
			s.mustHaveBeen(ev.ref, ev.time)
		case mustEnd:
			s.mustEnd(ev.ref, ev.time)
		case endOrStretch:
			s.endOrStretch(ev.ref, ev.time)
		case interchanging:
			s.interchanging(ev.ref)
		case sawBusy:
			s.sawBusy(s.ops[ev.ref].Invoke, ev.time)
		case sawNotHeld:
			s.sawNotHeld(s.hold[ev.ref], s.ops[ev.ref].Invoke, ev.time)
		}
		if len(s.after) == 0 {
			return s.refute(ev)
		}
		if len(s.after) > 1 {
			s.prune()
			s.peak = max(s.peak, len(s.after))
		}
		switch {
		case s.full:
			return unknown(nil, "more than 64 holds of unknown extent at once, at time %d", ev.time)
		case len(s.after) > s.limit:
			return unknown(nil, "more than %d possible states at time %d", s.limit, ev.time)
		case s.work < 0:
			return unknown(nil, "too many possible states for too long, at time %d", ev.time)
		}
		s.states, s.after = s.after, s.states
	}
	return legal()
}

// mustStart: a fixed tenure has begun, at the latest now, and lasts.
func (s *sweep) mustStart(h int32, now int64) {
	for _, c := range s.states {
		if c.holder != h {
			if !s.canEnd(c.holder, now) {
				continue
			}
			c.holder, c.since = h, now
		}
		s.after = append(s.after, c)
	}
}

// mustHaveBeen: a flexible tenure has begun, at the latest now.
func (s *sweep) mustHaveBeen(h int32, now int64) {
	u := &s.all[h]
	bit := u.bit()
	for _, c := range s.states {
		if c.begun&bit != 0 {
			c.begun &^= bit
			s.after = append(s.after, c)
			continue
		}
		// It may have come and gone just before the present tenure.
		if c.holder != nobody && u.end1 <= c.since {
			s.after = append(s.after, c)
		}
		// Or it begins now. That it ends at once need not be considered, as it
		// can end whenever another has to begin.
		if s.canEnd(c.holder, now) {
			c.holder, c.since = h, now
			s.after = append(s.after, c)
		}
	}
	s.retire(h)
}

// mustEnd: a tenure has ended, at the latest now.
func (s *sweep) mustEnd(h int32, now int64) {
	for _, c := range s.states {
		if c.holder == h {
			c.holder, c.since = nobody, now
		}
		s.after = append(s.after, c)
	}
}

// endOrStretch: a lease ends, at the latest now, or lasts until its gap is over.
func (s *sweep) endOrStretch(h int32, now int64) {
	for _, c := range s.states {
		s.after = append(s.after, c)
		if c.holder == h {
			c.holder, c.since = nobody, now
			s.after = append(s.after, c)
		}
	}
}

// interchanging: from now on a phantom can begin and end at any time, so all that
// matters is how many such there are.
func (s *sweep) interchanging(h int32) {
	bit := s.all[h].bit()
	for _, c := range s.states {
		if c.begun&bit == 0 {
			c.spare++
		}
		c.begun &^= bit
		s.after = append(s.after, c)
	}
	s.retire(h)
}

// sawBusy: somebody had the lock at some moment since the invocation. If not, a tenure
// begins now.
func (s *sweep) sawBusy(invoked, now int64) {
	listed := false
	for _, c := range s.states {
		if c.holder != nobody || c.since >= invoked {
			s.after = append(s.after, c)
			continue
		}
		if !listed {
			listed = true
			s.openWindows(now)
		}
		begin := func(holder int32) *state {
			s.after = append(s.after, state{holder: holder, spare: c.spare, since: now, begun: c.begun})
			return &s.after[len(s.after)-1]
		}
		// Fixed tenures come in the order of their starts. A tenure that cannot
		// end before the next of them must start has no future.
		due := int64(Never)
		if s.next < len(s.events) {
			ev := &s.events[s.next]
			due = ev.time
			if s.all[ev.ref].start1 <= now {
				begin(ev.ref)
			}
		}
		if c.spare > 0 {
			begin(anybody).spare--
		}
		for _, h := range s.active {
			u := &s.all[h]
			if c.begun&u.bit() != 0 || u.end1 > due {
				continue
			}
			if u.class == phantom && c.spare > 0 && u.declined <= u.end1 {
				continue // using a spare instead leaves this one for later
			}
			if !s.occupy(h) {
				return
			}
			begin(h).begun |= u.bit()
		}
		if s.forever <= now && due == Never {
			begin(somebody)
		}
	}
}

// sawNotHeld: the hold did not have the lock at some moment since the invocation. If it
// did, its tenure ends now.
func (s *sweep) sawNotHeld(h int32, invoked, now int64) {
	for _, c := range s.states {
		if c.holder == h && c.since < invoked {
			if !s.endable(h, now) {
				continue
			}
			c.holder, c.since = nobody, now
		}
		s.after = append(s.after, c)
	}
}

func (s *sweep) canEnd(holder int32, now int64) bool {
	switch holder {
	case nobody, anybody:
		return true
	case somebody:
		return false
	}
	return s.endable(holder, now)
}

// openWindows brings active and next up to date.
func (s *sweep) openWindows(now int64) {
	for s.arrived < len(s.loose) && s.all[s.loose[s.arrived]].start1 <= now {
		h := s.loose[s.arrived]
		s.arrived++
		s.active = append(s.active, h)
	}
	s.active = slices.DeleteFunc(s.active, func(h int32) bool { return s.all[h].slot == retired })
	s.next = max(s.next, s.event)
	for s.next < len(s.events) && s.events[s.next].kind != mustStart {
		s.next++
	}
}

const retired = 255

// occupy gives a loose tenure a bit.
func (s *sweep) occupy(h int32) bool {
	u := &s.all[h]
	if u.slot != 0 {
		return true
	}
	free := bits.TrailingZeros64(^s.used)
	if free == 64 {
		s.full = true
		s.after = append(s.after, state{}) // the history is not refuted
		return false
	}
	u.slot = uint8(free + 1)
	s.used |= u.bit()
	return true
}

// retire ends the time in which it matters whether a loose tenure has begun.
func (s *sweep) retire(h int32) {
	u := &s.all[h]
	s.used &^= u.bit()
	u.slot = retired
}

func (u *tenure) bit() uint64 {
	if u.slot == 0 || u.slot == retired {
		return 0
	}
	return 1 << (u.slot - 1)
}

// prune drops states that can do nothing that another cannot do as well.
func (s *sweep) prune() {
	const few = 8
	sorted := len(s.after) > few
	if sorted { // then whatever covers a state comes before it
		slices.SortFunc(s.after, func(a, b state) int {
			return cmp.Or(cmp.Compare(a.holder, b.holder), cmp.Compare(b.since, a.since),
				cmp.Compare(b.spare, a.spare), cmp.Compare(a.begun, b.begun))
		})
	}
	kept := s.after[:0]
	for _, c := range s.after {
		covered := false
		for i := len(kept) - 1; i >= 0 && !covered; i-- {
			covered = kept[i].covers(&c)
			// Of many, only the nearest are compared.
			if sorted && len(kept)-i >= 32 {
				break
			}
		}
		if covered {
			continue
		}
		if !sorted {
			kept = slices.DeleteFunc(kept, func(k state) bool { return c.covers(&k) })
		}
		kept = append(kept, c)
	}
	s.after = kept
}

// covers says whether whatever can follow d can follow c: with the same holder, a later
// last change, as many spare phantoms, and no loose tenure begun that d has not. That
// goes for flexible tenures too, which must have been: d has one behind it that c has
// not, so it had begun and ended by d.since ≤ c.since, and can just as well have come
// and gone in c then.
func (c *state) covers(d *state) bool {
	return c.holder == d.holder && c.begun&^d.begun == 0 && c.since >= d.since && c.spare >= d.spare
}

// refute names the operations that no state can satisfy together.
func (s *sweep) refute(ev *event) Verdict {
	var holds []int32
	if h := s.states[0].holder; h >= 0 {
		holds = append(holds, h)
	}
	switch ev.kind {
	case sawBusy:
		// The holds around it, which could have had the lock but did not.
		for i := s.event - 1; i >= 0; i-- {
			if s.events[i].kind == mustStart || s.events[i].kind == mustHaveBeen {
				holds = append(holds, s.events[i].ref)
				break
			}
		}
		for i := s.event; i < len(s.events); i++ {
			if s.events[i].kind == mustStart {
				holds = append(holds, s.events[i].ref)
				break
			}
		}
		op := &s.ops[ev.ref]
		w := append(s.witness(holds...), int(ev.ref))
		slices.Sort(w)
		return illegal(slices.Compact(w), "hold %d was told that the lock is taken between %d and %d, when nobody can have had it",
			op.Hold, op.Invoke, op.Return)
	case sawNotHeld:
		op := &s.ops[ev.ref]
		return illegal(s.witness(append(holds, s.hold[ev.ref])...), "hold %d was told that it does not have the lock between %d and %d, when it must have had it",
			op.Hold, op.Invoke, op.Return)
	}
	name := func(h int32) int64 { return s.ops[s.all[h].acquire].Hold }
	if len(holds) == 0 {
		return illegal(s.witness(ev.ref), "hold %d has the lock at time %d, when somebody else must have had it", name(ev.ref), ev.time)
	}
	return illegal(s.witness(holds[0], ev.ref), "hold %d has the lock at the latest at time %d, when hold %d must still have it",
		name(ev.ref), ev.time, name(holds[0]))
}
