package monitor

import (
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
)

// The models that the monitors must agree with, as plainly as they can be written.
//
// An operation of unknown outcome never returns, so that the search can put it last,
// where it has nothing to change any more: that is how it can not have happened. For
// locks, whose searches would drown in them, that is the only way: without effect, such
// an operation comes after all that must happen.

func linearizable(model porcupine.Model, ops []porcupine.Operation) Result {
	if porcupine.CheckOperations(model, ops) {
		return Legal
	}
	return Illegal
}

func partition(key func(input any) int32) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(ops []porcupine.Operation) [][]porcupine.Operation {
		of := map[int32][]porcupine.Operation{}
		for _, op := range ops {
			k := key(op.Input)
			of[k] = append(of[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range of {
			parts = append(parts, part)
		}
		return parts
	}
}

// leaseState is a lock, or a lease with the bounds of its present segment.
type leaseState struct {
	holder      int64
	early, late int64
	begun       uint64 // operations that began or prolonged a segment
	seen        int    // operations that must happen and did
}

// expiry is an operation that no client sees: the segment that op began may end or, if
// must, has ended or was prolonged.
type expiry struct {
	op          LockOp
	bit         int
	early, late int64
	must        bool
}

type lockInput struct {
	op     LockOp
	total  int // operations of the key that must happen
	bit    int
	lease  bool
	expiry *expiry
	early  int64
	late   int64
}

var lockModel = porcupine.Model{
	Partition: partition(func(in any) int32 { return in.(lockInput).op.Key }),
	Init:      func() any { return leaseState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(leaseState), input.(lockInput)
		op := in.op
		mine := s.holder != 0 && s.holder == op.Hold
		if x := in.expiry; x != nil {
			if x.must {
				// Not before its segment has begun, since then it would evade.
				s.seen++
				return s.begun&(1<<x.bit) != 0 && !(mine && x.late >= s.late), s
			}
			if mine && x.early >= s.early {
				s.holder = 0
				return true, s
			}
			return s.seen == in.total, s
		}
		if op.Outcome != Info {
			s.seen++
		}
		segment := func() {
			if !mine {
				s.early, s.late = in.early, in.late
			}
			s.early, s.late = max(s.early, in.early), max(s.late, in.late)
			s.begun |= 1 << in.bit
		}
		switch op.Kind {
		case Acquire:
			free := s.holder == 0
			if op.Outcome == OK && !free || op.Outcome == Fail && free {
				return false, s
			}
			if op.Outcome != Fail && free {
				s.holder = op.Hold
				if in.lease {
					segment()
				}
				return true, s
			}
		case Release, Extend:
			if op.Outcome == OK && !mine || op.Outcome == Fail && mine {
				return false, s
			}
			if op.Outcome != Fail && mine {
				if op.Kind == Release {
					s.holder = 0
				} else if in.lease {
					segment()
				}
				return true, s
			}
		}
		return op.Outcome != Info || s.seen == in.total, s
	},
}

// searchLock is the reference for Lock, and with a lease for Lease.
func searchLock(ops []LockOp, rules LockRules, lease *LeaseRules) Result {
	var list []porcupine.Operation
	for i, op := range ops {
		if op.Outcome == Fail && (op.Kind == Acquire && rules.IgnoreBusy || op.Kind != Acquire && rules.IgnoreNotHeld) {
			continue
		}
		op.Hold += 100 // 0 is nobody
		in := lockInput{op: op, bit: i, lease: lease != nil}
		if lease != nil {
			in.early, in.late = after(op.Invoke, lease.TTL-lease.Margin), after(op.Return, lease.TTL+lease.Margin)
			if op.Deadline != 0 && op.Outcome == OK {
				in.early, in.late = op.Deadline-lease.Margin, max(in.late, op.Deadline+lease.Margin)
			}
		}
		list = append(list, porcupine.Operation{Input: in, Call: op.Invoke, Return: op.Return})
		if lease == nil || op.Kind == Release || op.Outcome == Fail {
			continue
		}
		x := expiry{op: op, bit: i, early: in.early, late: in.late}
		list = append(list, porcupine.Operation{Input: lockInput{op: op, expiry: &x}, Call: x.early, Return: Never})
		if lease.Latest && x.late < Never {
			x := x
			x.must = true
			list = append(list, porcupine.Operation{Input: lockInput{op: op, expiry: &x}, Call: op.Invoke, Return: x.late})
		}
	}
	total := map[int32]int{}
	for i := range list {
		if list[i].Return < Never {
			total[list[i].Input.(lockInput).op.Key]++
		}
	}
	for i := range list {
		in := list[i].Input.(lockInput)
		in.total = total[in.op.Key]
		list[i].Input = in
	}
	return linearizable(lockModel, list)
}

func semaphoreModel(n int) porcupine.Model {
	return porcupine.Model{
		Partition: partition(func(in any) int32 { return in.(LockOp).Key }),
		Init:      func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			taken, op := state.(int), input.(LockOp)
			next := taken + 1
			if op.Kind == Release {
				next = taken - 1
			}
			if next < 0 || next > n {
				return op.Outcome == Info, taken
			}
			return true, next
		},
	}
}

func searchSemaphore(ops []LockOp, n int) Result {
	var list []porcupine.Operation
	for _, op := range ops {
		if op.Outcome != Fail && op.Kind != Extend {
			list = append(list, porcupine.Operation{Input: op, Call: op.Invoke, Return: op.Return})
		}
	}
	return linearizable(semaphoreModel(n), list)
}

func stockModel(initial, amount int64) porcupine.Model {
	return porcupine.Model{
		Partition: partition(func(in any) int32 { return in.(StockOp).Key }),
		Init:      func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			left, op := state.(int64), input.(StockOp)
			if op.Outcome != Info && op.Known && op.Value != left {
				return false, left
			}
			enough := left >= amount
			switch {
			case op.Kind == Read, op.Outcome == Info && !enough:
				return true, left
			case op.Outcome == Fail:
				return !enough, left
			}
			return enough, left - amount
		},
	}
}

func searchStock(ops []StockOp, model porcupine.Model) Result {
	var list []porcupine.Operation
	for _, op := range ops {
		if op.Kind == Read && op.Outcome != OK {
			continue
		}
		list = append(list, porcupine.Operation{Input: op, Call: op.Invoke, Return: op.Return})
	}
	return linearizable(model, list)
}

func counterModel(initial int64) porcupine.Model {
	m := stockModel(initial, 1)
	m.Step = func(state, input, _ any) (bool, any) {
		op := input.(StockOp)
		if op.Kind == Buy && op.Outcome == Fail {
			return true, state // it did not happen
		}
		if op.Outcome != Info && op.Known && op.Value != state.(int64) {
			return false, state
		}
		if op.Kind == Read {
			return true, state
		}
		return true, state.(int64) + 1
	}
	return m
}

type tokenState struct{ holder, newest int64 }

var tokenModel = porcupine.Model{
	Partition: partition(func(in any) int32 { return in.(Grant).Key }),
	Init:      func() any { return int64(-1 << 62) },
	Step: func(state, input, _ any) (bool, any) {
		g := input.(Grant)
		return g.Token > state.(int64), g.Token
	},
}

var fencedModel = porcupine.Model{
	Partition: partition(func(in any) int32 { return in.(tokenOp).Key }),
	Init:      func() any { return tokenState{newest: -1 << 62} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(tokenState), input.(tokenOp)
		ok, next := lockModel.Step(leaseState{holder: s.holder}, lockInput{op: op.LockOp, total: 1}, nil)
		if !ok && op.Outcome != Info {
			return false, s
		}
		if op.Kind == Acquire && op.Outcome == OK && op.token != 0 {
			if op.token <= s.newest {
				return false, s
			}
			s.newest = op.token
		}
		s.holder = next.(leaseState).holder
		return true, s
	},
}

// agree compares n verdicts. A monitor that cannot tell agrees with nobody, unless it
// may.
func agree[T any](t *testing.T, generate func(*rand.Rand) T, monitor func(T) Verdict, search func(T) Result, print func(T) string, mayNotKnow bool) {
	t.Parallel()
	var count tally
	for i := range *randomN {
		h := generate(sourceOf(i))
		got, want := monitor(h), search(h)
		if count.add(got.Result); got.Result == Unknown && mayNotKnow {
			continue
		}
		if got.Result != want {
			t.Fatalf("history %d of seed %d: the monitor says %v (%s), the search %v\n%s", i, *seed, got.Result, got.Reason, want, print(h))
		}
	}
	count.check(t)
	if mayNotKnow && count.unknown*4 > count.legal+count.illegal {
		t.Errorf("%d unknown is too often", count.unknown)
	}
}

type lockCase struct {
	ops    []LockOp
	rules  LeaseRules
	n      int
	tokens []int64
	ends   map[int64]int64
}

func (c lockCase) String() string { return show(c.ops) }

func TestLockAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) lockCase {
		s := smallShape(r)
		return lockCase{ops: lockHistory(r, &s, false), rules: s.rules(r)}
	}, func(c lockCase) Verdict { return Lock(c.ops, c.rules.LockRules) },
		func(c lockCase) Result { return searchLock(c.ops, c.rules.LockRules, nil) }, printLock, false)
}

func printLock(c lockCase) string {
	return show(c.ops) + show([]LeaseRules{c.rules}) + show(c.tokens) + show([]map[int64]int64{c.ends})
}

func TestLeaseAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) lockCase {
		s := smallShape(r)
		ops := lockHistory(r, &s, true)
		return lockCase{ops: ops, rules: s.rules(r)}
	}, func(c lockCase) Verdict { return Lease(c.ops, c.rules) },
		func(c lockCase) Result { return searchLock(c.ops, c.rules.LockRules, &c.rules) }, printLock, false)
}

func TestSemaphoreAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) lockCase {
		s := smallShape(r)
		ops := lockHistory(r, &s, false)
		return lockCase{ops: ops, n: 1 + r.IntN(4)/2*r.IntN(3)}
	}, func(c lockCase) Verdict { return Semaphore(c.ops, c.n) },
		func(c lockCase) Result { return searchSemaphore(c.ops, c.n) }, printLock, false)
}

func TestMutexAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) lockCase {
		s := smallShape(r)
		s.width = 1 + r.IntN(4)
		c := lockCase{ops: lockHistory(r, &s, false), ends: map[int64]int64{}}
		for range r.IntN(4) {
			c.ops = spoilLock(r, c.ops)
		}
		if s.keys == 1 && chance(r, 30) {
			op := c.ops
			for i := range op {
				if chance(r, 20) {
					c.ends[op[i].Hold] = op[i].Invoke + int64(r.IntN(5))
				}
			}
		}
		return c
	}, func(c lockCase) Verdict { return Mutex(c.ops, c.ends) },
		func(c lockCase) Result {
			var ops []LockOp
			for _, op := range c.ops {
				switch {
				case op.Kind == Acquire && op.Outcome == OK:
					ops = append(ops, op)
					if at, ok := c.ends[op.Hold]; ok {
						ops = append(ops, LockOp{Invoke: at, Return: Never, Kind: Release, Outcome: Info, Hold: op.Hold, Key: op.Key})
					}
				case op.Kind == Release:
					op.Outcome, op.Return = Info, Never
					ops = append(ops, op)
				}
			}
			return searchLock(ops, LockRules{}, nil)
		}, printLock, false)
}

func TestFencingAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) []Grant {
		s := smallShape(r)
		grants := make([]Grant, s.n)
		at := int64(0)
		for i := range grants {
			at += int64(r.IntN(s.pause))
			g := &grants[i]
			g.Invoke, g.Return = s.interval(r, at, OK)
			g.Token, g.Key = int64(i*3), int32(r.IntN(s.keys))
			if chance(r, 15) {
				g.Token += int64(r.IntN(13) - 6)
			}
		}
		r.Shuffle(len(grants), func(i, j int) { grants[i], grants[j] = grants[j], grants[i] })
		return grants
	}, Fencing, func(grants []Grant) Result {
		var list []porcupine.Operation
		for _, g := range grants {
			list = append(list, porcupine.Operation{Input: g, Call: g.Invoke, Return: g.Return})
		}
		return linearizable(tokenModel, list)
	}, func(g []Grant) string { return show(g) }, false)
}

func TestFencedLockAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) lockCase {
		s := smallShape(r)
		s.width, s.pause = 1+r.IntN(3), 4+r.IntN(8)
		c := lockCase{ops: lockHistory(r, &s, false), rules: s.rules(r)}
		c.tokens = make([]int64, len(c.ops))
		for i := range c.ops {
			if c.ops[i].Kind == Acquire && !chance(r, 10) {
				c.tokens[i] = 10 * c.ops[i].Hold
				if chance(r, 10) {
					c.tokens[i] += int64(r.IntN(31) - 15)
				}
			}
		}
		return c
	}, func(c lockCase) Verdict { return FencedLock(c.ops, c.tokens, c.rules.LockRules) },
		func(c lockCase) Result {
			var list []porcupine.Operation
			for i, op := range c.ops {
				if op.Outcome == Fail && (op.Kind == Acquire && c.rules.IgnoreBusy || op.Kind != Acquire && c.rules.IgnoreNotHeld) {
					continue
				}
				list = append(list, porcupine.Operation{Input: tokenOp{op, c.tokens[i]}, Call: op.Invoke, Return: op.Return})
			}
			return linearizable(fencedModel, list)
		}, printLock, true)
}

type stockCase struct {
	ops             []StockOp
	initial, amount int64
}

func printStock(c stockCase) string { return show([]int64{c.initial, c.amount}) + show(c.ops) }

func stockCaseOf(r *rand.Rand, s shape, wallet bool) stockCase {
	c := stockCase{amount: 1}
	c.initial = int64(r.IntN(8))
	if s.n > 12 {
		c.initial = int64(r.IntN(40))
	}
	if wallet {
		c.amount = int64(1 + r.IntN(4))
		c.initial = c.initial*c.amount + int64(r.IntN(int(c.amount)))
	}
	c.ops = stockHistory(r, s, c.initial, c.amount, []int{0, 50, 90, 100}[r.IntN(4)])
	return c
}

func TestStockAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) stockCase { return stockCaseOf(r, smallShape(r), false) },
		func(c stockCase) Verdict { return Stock(c.ops, c.initial) },
		func(c stockCase) Result { return searchStock(c.ops, stockModel(c.initial, 1)) }, printStock, false)
}

func TestWalletAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) stockCase { return stockCaseOf(r, smallShape(r), true) },
		func(c stockCase) Verdict { return Wallet(c.ops, c.initial, c.amount) },
		func(c stockCase) Result { return searchStock(c.ops, stockModel(c.initial, c.amount)) }, printStock, false)
}

func TestCounterAgrees(t *testing.T) {
	agree(t, func(r *rand.Rand) stockCase {
		c := stockCaseOf(r, smallShape(r), false)
		for i := range c.ops { // what counts down from initial counts up from 0
			c.ops[i].Value = c.initial - c.ops[i].Value
		}
		c.initial = 0
		return c
	}, func(c stockCase) Verdict { return Counter(c.ops, c.initial) },
		func(c stockCase) Result { return searchStock(c.ops, counterModel(c.initial)) }, printStock, false)
}
