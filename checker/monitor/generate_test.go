package monitor

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	randomN = flag.Int("random", 30_000/slower, "random histories per model to compare with Porcupine")
	longN   = flag.Int("long", 500/slower, "histories of 30 to 60 operations per model to compare with a second search")
	seed    = flag.Uint64("seed", 1, "of the random histories")
)

func sourceOf(i int) *rand.Rand { return rand.New(rand.NewPCG(*seed, uint64(i))) }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// shape of a random history.
type shape struct {
	n           int
	keys        int
	width       int // operations last up to twice this
	pause       int // time between two moments of effect is below this
	info        int // percent of unknown outcomes
	ttl, margin int64
	latest      bool
}

func smallShape(r *rand.Rand) shape {
	s := shape{n: 2 + r.IntN(11), keys: 1 + r.IntN(4)/3*r.IntN(3), width: 1 + r.IntN(8), pause: 1 + r.IntN(6), info: []int{0, 10, 30, 60}[r.IntN(4)]}
	s.ttl, s.margin, s.latest = int64(r.IntN(16)), int64(r.IntN(3)), chance(r, 40)
	return s
}

func longShape(r *rand.Rand) shape {
	s := shape{n: 30 + r.IntN(31), keys: 1, width: 1 + r.IntN(12), pause: 1 + r.IntN(8), info: []int{0, 5, 10, 25, 40}[r.IntN(5)]}
	s.ttl, s.margin, s.latest = int64(4+r.IntN(40)), int64(r.IntN(4)), chance(r, 40)
	return s
}

func (s *shape) rules(r *rand.Rand) LeaseRules {
	return LeaseRules{
		LockRules: LockRules{IgnoreBusy: chance(r, 15), IgnoreNotHeld: chance(r, 15)},
		TTL:       s.ttl, Margin: s.margin, Latest: s.latest,
	}
}

// interval surrounds a moment.
func (s *shape) interval(r *rand.Rand, t int64, o Outcome) (int64, int64) {
	from, to := t-int64(r.IntN(s.width+1)), t+int64(r.IntN(s.width+1))
	if chance(r, 10) {
		to += int64(r.IntN(4 * s.width))
	}
	if o == Info {
		to = Never
	}
	return from, to
}

// lockHistory makes a history in one of several ways: by simulating a correct lock or
// lease, by spoiling such a history, or at random altogether.
// Two more ways aim at what chance seldom builds.
func lockHistory(r *rand.Rand, s *shape, lease bool) []LockOp {
	var ops []LockOp
	way := r.IntN(100)
	if way < 35 && lease && way%2 == 0 {
		s.latest, s.ttl = true, 6+int64(r.IntN(10))
	}
	for k := range s.keys {
		part := *s
		part.n = (s.n + s.keys - 1 - k) / s.keys
		var of []LockOp
		switch {
		case way < 35 && lease && way%2 == 0:
			of = part.stretchedLease(r)
		case way < 35:
			of = part.islands(r)
		case way < 50:
			of = part.anyLock(r)
		default:
			of = part.goodLock(r, lease)
			for range []int{0, 0, 1, 1, 2, 3}[r.IntN(6)] {
				of = spoilLock(r, of)
			}
		}
		for i := range of {
			of[i].Key = int32(k*7 - 3)
		}
		ops = append(ops, of...)
	}
	for i := range ops {
		if op := &ops[i]; way%3 == 0 && op.Kind != Release && op.Outcome != Fail && chance(r, 50) {
			op.Deadline = op.Invoke + s.ttl + int64(r.IntN(7)-2)
		}
	}
	if chance(r, 50) {
		r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	}
	return ops
}

func (s *shape) goodLock(r *rand.Rand, lease bool) []LockOp {
	const free = 0
	var (
		ops                    []LockOp
		t, early, late, holder int64
		holds                  []int64
	)
	span := func(sum, d int64) int64 { return after(sum, d) }
	last := func() int64 { return holds[max(0, len(holds)-1-r.IntN(3))] }
	for len(ops) < s.n {
		t += int64(r.IntN(s.pause))
		if chance(r, 5) {
			t += int64(r.IntN(8 * s.pause))
		}
		if lease && holder != free && (t >= early && chance(r, 30) || s.latest && t > late) {
			if early > t {
				t = early
			}
			holder = free
		}
		op := LockOp{Outcome: OK}
		happens := true
		if chance(r, s.info) {
			op.Outcome, happens = Info, chance(r, 60)
		}
		op.Invoke, op.Return = s.interval(r, t, op.Outcome)
		switch p := r.IntN(100); {
		case len(holds) == 0 || p < 50:
			op.Kind, op.Hold = Acquire, int64(len(holds)+1)
			holds = append(holds, op.Hold)
			switch {
			case happens && holder == free:
				holder = op.Hold
				early, late = span(op.Invoke, s.ttl-s.margin), span(op.Return, s.ttl+s.margin)
			case op.Outcome == OK:
				op.Outcome = Fail
			}
		case p < 65 && lease:
			op.Kind, op.Hold = Extend, holder
			if holder == free || chance(r, 30) {
				op.Hold = last()
			}
			switch {
			case happens && holder == op.Hold:
				early, late = max(early, span(op.Invoke, s.ttl-s.margin)), max(late, span(op.Return, s.ttl+s.margin))
			case op.Outcome == OK:
				op.Outcome = Fail
			}
		default:
			op.Kind, op.Hold = Release, holder
			if holder == free || chance(r, 20) {
				op.Hold = last()
			}
			switch {
			case happens && holder == op.Hold:
				holder = free
			case op.Outcome == OK:
				op.Outcome = Fail
			}
		}
		ops = append(ops, op)
	}
	return ops
}

// spoilLock changes one thing, or plants a grant inside of another, which nothing can
// explain if the other is certain and long enough.
func spoilLock(r *rand.Rand, ops []LockOp) []LockOp {
	if len(ops) == 0 {
		return ops
	}
	op := &ops[r.IntN(len(ops))]
	switch r.IntN(8) {
	case 0, 1:
		if op.Outcome == OK {
			op.Outcome = Fail
		} else if op.Outcome == Fail {
			op.Outcome = OK
		}
	case 2:
		d := int64(r.IntN(21) - 10)
		op.Invoke += d
		if op.Outcome != Info {
			op.Return += d
		}
	case 3:
		if op.Outcome != Info {
			op.Return = op.Invoke + int64(r.IntN(3))
		}
	case 4:
		if op.Kind != Acquire {
			op.Hold = ops[r.IntN(len(ops))].Hold
		}
	case 5:
		i := r.IntN(len(ops))
		ops = slices.Delete(ops, i, i+1)
	case 6:
		if op.Outcome == Info && chance(r, 50) {
			op.Outcome, op.Return = OK, op.Invoke+int64(r.IntN(20))
		} else {
			op.Outcome, op.Return = Info, Never
		}
	case 7:
		if op.Kind == Acquire && op.Outcome == OK {
			i := r.IntN(len(ops))
			from := op.Return + int64(r.IntN(3))
			ops[i] = LockOp{Invoke: from, Return: from + int64(r.IntN(3)), Kind: Acquire, Outcome: OK, Hold: 1000 + int64(len(ops)+i), Key: op.Key}
			for j := range ops {
				if j != i && ops[j].Hold == ops[i].Hold {
					ops[i].Hold += 5000 // spoiled twice
				}
			}
		}
	}
	return ops
}

func (s *shape) anyLock(r *rand.Rand) []LockOp {
	var ops []LockOp
	span := 1 + r.IntN(3*s.n+1)
	holds := 0
	for range s.n {
		op := LockOp{Outcome: []Outcome{OK, OK, Fail}[r.IntN(3)], Kind: []Kind{Acquire, Release, Release, Extend}[r.IntN(4)]}
		if chance(r, s.info) {
			op.Outcome = Info
		}
		op.Invoke, op.Return = s.interval(r, int64(r.IntN(span)), op.Outcome)
		if op.Kind == Acquire {
			holds++
			op.Hold = int64(holds)
		} else {
			op.Hold = int64(1 + r.IntN(holds+1))
			if chance(r, 70) {
				op.Hold = int64(max(1, holds))
			}
		}
		ops = append(ops, op)
	}
	return ops
}

// islands are busy answers between grants that are certain, at times when only holds of
// unknown extent can explain them: how many there are, and which of them are of use
// when, decides.
func (s *shape) islands(r *rand.Rand) []LockOp {
	var ops []LockOp
	hold, at := int64(0), int64(0)
	add := func(k Kind, o Outcome, h, from, to int64) {
		if o == Info {
			to = Never
		}
		ops = append(ops, LockOp{Invoke: from, Return: to, Hold: h, Kind: k, Outcome: o})
	}
	certain := func() {
		hold++
		add(Acquire, OK, hold, at, at+1)
		add(Release, OK, hold, at+2, at+3)
		at += 4 + int64(r.IntN(2))
	}
	loose := func(span int64) {
		hold++
		from := int64(r.IntN(int(span)+1)) - 2
		add(Acquire, Info, hold, from, 0)
		to := from + int64(r.IntN(int(span)))
		switch r.IntN(5) {
		case 0:
			add(Release, OK, hold, to, to+int64(r.IntN(int(span))))
		case 1: // never given back
		default:
			add(Release, Info, hold, to, 0)
		}
		if chance(r, 40) {
			to += int64(r.IntN(18) - 2)
			add([]Kind{Release, Extend}[r.IntN(2)], Fail, hold, to, to+int64(r.IntN(10)))
		}
	}
	for share := 50 + r.IntN(15); len(ops)*100 < s.n*share; {
		if chance(r, 55) {
			certain()
			continue
		}
		for range 1 + r.IntN(3) {
			hold++
			at += int64(r.IntN(4))
			if chance(r, 20) {
				at += 10
			}
			add(Acquire, Fail, hold, at, at+1+int64(r.IntN(2)))
			at += 2 + int64(r.IntN(3))
		}
	}
	span := at
	for len(ops) < s.n-1 {
		loose(max(1, span))
	}
	return ops[:min(len(ops), s.n)]
}

// stretchedLease is a lease that extensions of unknown outcome may have prolonged, and
// observers about the times at which it must have ended or cannot have ended yet.
func (s *shape) stretchedLease(r *rand.Rand) []LockOp {
	var ops []LockOp
	at, hold := int64(0), int64(0)
	for len(ops) < s.n {
		hold++
		mine := hold
		took := int64(r.IntN(3))
		ops = append(ops, LockOp{Invoke: at, Return: at + took, Hold: mine, Kind: Acquire, Outcome: OK})
		end := at + took
		for range r.IntN(3) {
			from := end + int64(r.IntN(int(s.ttl)+3))
			op := LockOp{Invoke: from, Return: from + int64(r.IntN(4)), Hold: mine, Kind: Extend, Outcome: OK}
			if chance(r, 65) {
				op.Outcome, op.Return = Info, Never
			}
			ops, end = append(ops, op), from
		}
		for range r.IntN(4) {
			from := end + s.ttl + int64(r.IntN(9)-6)
			if chance(r, 40) {
				from = at + took + s.ttl + int64(r.IntN(int(s.ttl)+6)-3)
			}
			op := LockOp{Invoke: from, Return: from + int64(r.IntN(5)), Hold: mine, Outcome: OK}
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				hold++
				op.Kind, op.Hold, op.Outcome = Acquire, hold, Fail
			case 4:
				op.Kind = Extend
			case 5:
				op.Kind, op.Outcome = Release, Fail
			case 6:
				op.Kind, op.Outcome, op.Return = Release, Info, Never
			case 7:
				op.Kind = Release
			}
			ops = append(ops, op)
		}
		at = end + s.ttl + int64(r.IntN(2*int(s.ttl)+4)-4)
	}
	return ops[:s.n]
}

// stockHistory is lockHistory for a counter with the given units, sold for amount each.
func stockHistory(r *rand.Rand, s shape, units, amount int64, values int) []StockOp {
	var ops []StockOp
	for k := range s.keys {
		part := s
		part.n = (s.n + s.keys - 1 - k) / s.keys
		of := part.goodStock(r, units, amount, values)
		for range []int{0, 0, 1, 1, 2, 3}[r.IntN(6)] {
			spoilStock(r, of, units, amount)
		}
		for i := range of {
			of[i].Key = int32(k*7 - 3)
		}
		ops = append(ops, of...)
	}
	if chance(r, 50) {
		r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	}
	return ops
}

func (s *shape) goodStock(r *rand.Rand, units, amount int64, values int) []StockOp {
	var ops []StockOp
	t, left := int64(0), units
	for range s.n {
		t += int64(r.IntN(s.pause))
		op := StockOp{Kind: Buy, Outcome: OK, Known: chance(r, values), Value: left}
		happens := true
		if chance(r, s.info) {
			op.Outcome, happens = Info, chance(r, 60)
		}
		op.Invoke, op.Return = s.interval(r, t, op.Outcome)
		switch {
		case chance(r, 30):
			op.Kind, op.Known = Read, !chance(r, 5)
		case happens && left >= amount:
			left -= amount
		case op.Outcome == OK:
			op.Outcome = Fail
		}
		ops = append(ops, op)
	}
	return ops
}

func spoilStock(r *rand.Rand, ops []StockOp, units, amount int64) {
	if len(ops) == 0 {
		return
	}
	op := &ops[r.IntN(len(ops))]
	switch r.IntN(6) {
	case 0:
		op.Value += int64(r.IntN(3)-1) * amount
	case 1:
		op.Value = int64(r.IntN(int(units) + 2))
	case 2:
		if op.Outcome == OK {
			op.Outcome = Fail
		} else if op.Outcome == Fail {
			op.Outcome = OK
		}
	case 3:
		if op.Outcome != Info {
			d := int64(r.IntN(17) - 8)
			op.Invoke, op.Return = op.Invoke+d, op.Return+d
		}
	case 4:
		op.Known = !op.Known
	case 5:
		if op.Outcome == Info && chance(r, 50) {
			op.Outcome, op.Return = OK, op.Invoke+int64(r.IntN(12))
		} else {
			op.Outcome, op.Return = Info, Never
		}
	}
}

// tally counts verdicts; a comparison that never sees one of them compares nothing.
type tally struct{ legal, illegal, unknown, skipped int }

func (c *tally) add(r Result) {
	switch r {
	case Legal:
		c.legal++
	case Illegal:
		c.illegal++
	default:
		c.unknown++
	}
}

func (c *tally) check(t *testing.T) {
	t.Helper()
	t.Logf("%d legal, %d illegal, %d unknown, %d skipped", c.legal, c.illegal, c.unknown, c.skipped)
	if all := c.legal + c.illegal; c.legal*20 < all || c.illegal*20 < all {
		t.Errorf("one-sided: %d legal, %d illegal", c.legal, c.illegal)
	}
}

func show[T any](ops []T) string {
	var b strings.Builder
	for i := range ops {
		fmt.Fprintf(&b, "  %2d %+v\n", i, ops[i])
	}
	return b.String()
}
