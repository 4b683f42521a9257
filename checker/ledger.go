package checker

import (
	"cmp"
	"slices"

	"lockstress/history"
)

// ledger is what clients saw of one resource: a number that starts at initial and
// falls by amount with every sale (a unit of stock, or a withdrawal from a wallet).
// So the values it passes through are known beforehand, and each but the last is
// sold from exactly once. That makes it quick to judge.
type ledger struct {
	key             string
	initial, amount int64
	entries         []entry // in order of invocation
}

// Kinds of entries.
type entryKind uint8

const (
	sale  entryKind = iota // happened; value is what it was sold from, if known
	maybe                  // a sale that may have happened, or may yet
	look                   // the resource had the value
	empty                  // a sale was refused: there was too little; value if known
)

type entry struct {
	kind      entryKind
	op        *history.Operation
	call, ret int64
	value     int64
	known     bool
}

// after is the most that can be left once e, whose value is known, has happened.
func (l *ledger) after(e *entry) int64 {
	if e.kind == sale {
		return e.value - l.amount
	}
	return e.value
}

// ledgers of a history, by key. Refused sales (a stale token, a client that gave up)
// changed and showed nothing, and are not entered.
func (v *view) ledgers() []*ledger {
	var all []*ledger
	at := map[string]*ledger{}
	for i := range v.ops {
		op := &v.ops[i]
		if op.Op != history.Buy && op.Op != history.Withdraw && op.Op != history.Read {
			continue
		}
		l := at[op.Key]
		if l == nil {
			l = &ledger{key: op.Key, initial: v.h.Header.Initial, amount: max(v.h.Header.Amount, 1)}
			at[op.Key] = l
			all = append(all, l)
		}
		e := entry{op: op, call: op.Invoke, ret: op.Return, value: op.Value, known: op.Known}
		switch {
		case op.Op == history.Read:
			if op.Outcome != history.OK || !op.Known {
				continue
			}
			e.kind = look
		case op.Outcome == history.OK:
			e.kind = sale
		case op.Outcome == history.Info:
			e.kind = maybe
		case op.Code == history.SoldOut:
			e.kind = empty
		default:
			continue
		}
		l.entries = append(l.entries, e)
	}
	return all
}

// only returns the ledger with the entries that keep accepts.
func (l *ledger) only(keep func(*entry) bool) *ledger {
	out := *l
	out.entries = nil
	for i := range l.entries {
		if keep(&l.entries[i]) {
			out.entries = append(out.entries, l.entries[i])
		}
	}
	return &out
}

// absurd: no order of the others could make e legal.
func (l *ledger) absurd(e *entry) bool {
	if !e.known || e.kind == maybe {
		return false
	}
	off := e.value < 0 || e.value > l.initial
	// Every sale takes the same, so the rest of the division stays.
	off = off || (l.initial-e.value)%l.amount != 0
	switch e.kind {
	case sale:
		return off || e.value < l.amount
	case empty:
		return off || e.value >= l.amount
	}
	return off
}

// clash finds two entries that contradict each other whatever else happened: two
// sales from the same value, or one that saw more than a completed one had left.
// That is all that can be wrong if the number may also fall by itself. first comes
// before second, and the pair is illegal from any initial value.
func (l *ledger) clash() (first, second *entry, found bool) {
	sold := map[int64]*entry{}
	for i := range l.entries {
		e := &l.entries[i]
		if e.kind != sale || !e.known {
			continue
		}
		if was, ok := sold[e.value]; ok {
			return was, e, true
		}
		sold[e.value] = e
	}
	var returned []*entry
	for i := range l.entries {
		if e := &l.entries[i]; e.known && e.kind != maybe {
			returned = append(returned, e)
		}
	}
	slices.SortStableFunc(returned, func(a, b *entry) int { return cmp.Compare(a.ret, b.ret) })
	var lowest *entry
	at := 0
	for i := range l.entries {
		e := &l.entries[i]
		if !e.known || e.kind == maybe {
			continue
		}
		for at < len(returned) && returned[at].ret < e.call {
			if r := returned[at]; lowest == nil || l.after(r) < l.after(lowest) {
				lowest = r
			}
			at++
		}
		if lowest != nil && e.value > l.after(lowest) {
			return lowest, e, true
		}
	}
	return nil, nil, false
}

// blind: some sale that happened does not say from which value. Such ledgers are
// left to Porcupine.
func (l *ledger) blind() bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return e.kind == sale && !e.known })
}

// settled is a ledger without the uncertain sales that settle nothing.
type settled struct {
	*ledger
	lowest int64 // the lowest value that was certainly reached
	gaps   int64 // how many there are
	sold   map[int64]bool
}

// settle tells what is certain about the sales that may have happened, by what was
// seen: values above the lowest seen that no certain sale accounts for – the gaps –
// were sold from by one of them. Those that fill no gap never need to have happened,
// and of those that do not say what they saw the earliest are as good as any. So the
// ledger without the rest is linearizable iff l is. It must be neither blind nor hold
// anything absurd.
func (l *ledger) settle() *settled {
	s := &settled{lowest: l.initial, sold: map[int64]bool{}}
	for i := range l.entries {
		e := &l.entries[i]
		switch {
		case e.kind == maybe:
		case e.kind == sale:
			s.sold[e.value] = true
			s.lowest = min(s.lowest, l.after(e))
		case e.known:
			s.lowest = min(s.lowest, e.value)
		default: // too little for a sale: only the last value of all is
			s.lowest = min(s.lowest, l.last())
		}
	}
	s.ledger = l
	s.gaps = (l.initial-s.lowest)/l.amount - int64(len(s.sold))
	blank := int64(0)
	s.ledger = l.only(func(e *entry) bool {
		switch {
		case e.kind != maybe:
			return true
		case e.known:
			return s.gap(e.value)
		}
		blank++
		return blank <= s.gaps
	})
	return s
}

// last is the value that is too small for any sale.
func (l *ledger) last() int64 { return l.initial % l.amount }

func (s *settled) gap(v int64) bool {
	return v > s.lowest && v <= s.initial && (s.initial-v)%s.amount == 0 && !s.sold[v]
}

// balanced tells whether the ledger is linearizable. It must not be blind.
//
// Let t be the time of the sale from each value, from the highest value to the lowest
// seen. The ledger is linearizable iff such times can be chosen that do not fall, with
//
//   - t within the interval of the sale, if it is certain;
//   - t not before the invocation of anything that saw this value, and not after the
//     answer of anything that saw the next;
//   - t not before the invocation of the uncertain sale that fills a gap, each filling
//     one at most.
//
// Choosing each t as early as possible is best. Only a gap leaves a choice, between a
// sale that saw just this value and the earliest that saw one unknown; so the earliest
// t is kept for each number of the latter that were used.
func (l *ledger) balanced() bool {
	if slices.ContainsFunc(l.entries, func(e entry) bool { return l.absurd(&e) }) {
		return false
	}
	type window struct{ from, to int64 }
	windows := map[int64]window{} // value → bounds of the sale from it
	narrow := func(v, from, to int64) {
		w, ok := windows[v]
		if !ok {
			w = window{-1 << 63, history.Never}
		}
		windows[v] = window{max(w.from, from), min(w.to, to)}
	}
	s := l.settle()
	certain, named := map[int64]bool{}, map[int64]int64{} // value → invocation of the earliest sale that saw it
	var blank []int64
	uncertain := 0
	for i := range s.entries {
		e := &s.entries[i]
		value := e.value
		switch {
		case e.kind == sale:
			if certain[value] {
				return false
			}
			certain[value] = true
			narrow(value, e.call, e.ret)
			continue
		case e.kind == maybe:
			uncertain++
			if !e.known {
				blank = append(blank, e.call)
			} else if was, ok := named[value]; !ok || e.call < was {
				named[value] = e.call
			}
			continue
		case !e.known:
			value = s.last()
		}
		narrow(value, e.call, history.Never)
		narrow(value+s.amount, -1<<63, e.ret)
	}
	if s.gaps > int64(uncertain) {
		return false
	}
	slices.Sort(blank)
	type path struct {
		used int   // of blank
		at   int64 // the time of the last sale
	}
	paths := []path{{0, -1 << 63}}
	for v := s.initial; v > s.lowest; v -= s.amount {
		w, ok := windows[v]
		if !ok {
			w = window{-1 << 63, history.Never}
		}
		var next []path
		for _, p := range paths {
			at := max(p.at, w.from)
			if certain[v] {
				next = append(next, path{p.used, at})
				continue
			}
			if call, ok := named[v]; ok {
				next = append(next, path{p.used, max(at, call)})
			}
			if p.used < len(blank) {
				next = append(next, path{p.used + 1, max(at, blank[p.used])})
			}
		}
		// Keep those that are possible and not worse in both respects than another.
		slices.SortFunc(next, func(a, b path) int { return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.at, b.at)) })
		paths = paths[:0]
		for _, p := range next {
			if p.at <= w.to && (len(paths) == 0 || p.at < paths[len(paths)-1].at) {
				paths = append(paths, p)
			}
		}
		if len(paths) == 0 {
			return false
		}
	}
	return true
}
