package monitor

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
)

// Histories as long as one likes, of objects that work, made in virtual time
// (nanoseconds) with clients that wait for each other as real ones do.

// agenda is what happens next: a heap of moments and what to do then.
type agenda []appointment

type appointment struct {
	time int64
	do   func()
}

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].time < a[j].time }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

type simulation struct {
	r       *rand.Rand
	now     int64
	agenda  agenda
	unknown int // percent of answers that are lost
}

func (s *simulation) in(d int64, do func()) {
	heap.Push(&s.agenda, appointment{s.now + d, do})
}

// delay is a network's, mostly short.
func (s *simulation) delay() int64 { return 20_000 + int64(s.r.ExpFloat64()*50_000) }

func (s *simulation) lost() bool { return chance(s.r, s.unknown) }

const (
	simTTL    = 20_000_000
	simMargin = 200_000
)

// simulateLock makes n operations of clients on one lock. Each asks until it is granted
// or has waited for too long, works, and releases; after an answer that is lost, it
// releases what it may have been granted until it knows. With a TTL holds expire,
// holders extend them, and some die or are late.
func simulateLock(clients, n, unknown int, lease bool) []LockOp {
	s := &simulation{r: rand.New(rand.NewPCG(7, uint64(clients))), unknown: unknown}
	ops := make([]LockOp, 0, n+clients)
	var holder, hold, expires int64
	// call sends a request: act is done at the server, and reply called with the
	// outcome when the answer arrives or is given up.
	call := func(k Kind, h int64, act func() bool, reply func(Outcome)) {
		i := len(ops)
		ops = append(ops, LockOp{Invoke: s.now, Return: Never, Hold: h, Kind: k, Outcome: Info})
		lost := s.lost()
		arrives := !lost || chance(s.r, 60)
		outcome := Info
		s.in(s.delay(), func() {
			if arrives {
				if lease && holder != 0 && s.now >= expires {
					holder = 0
				}
				if did := act(); !lost {
					outcome = Fail
					if did {
						outcome = OK
					}
				}
			}
			wait := s.delay()
			if lost {
				wait = 2_000_000
			}
			s.in(wait, func() {
				if outcome != Info {
					ops[i].Return, ops[i].Outcome = s.now, outcome
				}
				reply(outcome)
			})
		})
	}
	take := func(h int64) func() bool {
		return func() bool {
			if holder == 0 {
				holder, expires = h, s.now+simTTL
			}
			return holder == h
		}
	}
	var client func()
	client = func() {
		hold++
		h := hold
		var release func()
		release = func() {
			call(Release, h, func() bool {
				if holder != h {
					return false
				}
				holder = 0
				return true
			}, func(o Outcome) {
				if o == Info {
					release()
					return
				}
				s.in(s.delay(), client)
			})
		}
		call(Acquire, h, take(h), func(o Outcome) {
			switch {
			case o == Fail:
				s.in(int64(s.r.IntN(2_000_000)), client)
			case o == Info:
				release()
			case lease && chance(s.r, 2): // dead, or as good as that
				s.in(2*simTTL, client)
			case lease && chance(s.r, 20):
				s.in(simTTL/3, func() {
					call(Extend, h, func() bool {
						if holder == h {
							expires = s.now + simTTL
						}
						return holder == h
					}, func(Outcome) { s.in(s.delay(), release) })
				})
			default:
				s.in(s.delay()*2, release)
			}
		})
	}
	for range clients {
		s.in(s.delay(), client)
	}
	for len(ops) < n {
		next := heap.Pop(&s.agenda).(appointment)
		s.now = next.time
		next.do()
	}
	return ops[:n]
}

// simulateStock makes n operations of clients that buy, with the value they saw or
// without, and read.
func simulateStock(clients, n, unknown int, values bool) ([]StockOp, int64) {
	s := &simulation{r: rand.New(rand.NewPCG(7, uint64(clients))), unknown: unknown}
	ops := make([]StockOp, 0, n+clients)
	initial := int64(n) * 7 / 10 // sold out towards the end
	left := initial
	var client func()
	client = func() {
		i := len(ops)
		op := StockOp{Invoke: s.now, Return: Never, Kind: Buy, Outcome: Info}
		if chance(s.r, 10) {
			op.Kind = Read
		}
		ops = append(ops, op)
		lost := s.lost()
		arrives := !lost || chance(s.r, 60)
		s.in(s.delay(), func() {
			saw, outcome := left, OK
			switch {
			case !arrives || op.Kind == Read:
			case left > 0:
				left--
			default:
				outcome = Fail
			}
			wait := s.delay()
			if lost {
				wait = 2_000_000
			}
			s.in(wait, func() {
				if !lost {
					o := &ops[i]
					o.Return, o.Outcome, o.Value, o.Known = s.now, outcome, saw, values || op.Kind == Read
				}
				s.in(s.delay(), client)
			})
		})
	}
	for range clients {
		s.in(s.delay(), client)
	}
	for len(ops) < n {
		next := heap.Pop(&s.agenda).(appointment)
		s.now = next.time
		next.do()
	}
	return ops[:n], initial
}

// plantGrant adds a second grant strictly within the time of one that is certain, nine
// tenths into the history. It returns the holds concerned, or false if there is no room.
func plantGrant(ops []LockOp, lease bool) ([]LockOp, [2]int64, bool) {
	release := map[int64]int64{}
	for i := range ops {
		if op := &ops[i]; op.Kind == Release {
			if was, ok := release[op.Hold]; !ok || op.Invoke < was {
				release[op.Hold] = op.Invoke
			}
		}
	}
	for i := len(ops) * 9 / 10; i < len(ops); i++ {
		op := ops[i]
		until, ok := release[op.Hold]
		if op.Kind != Acquire || op.Outcome != OK || !ok {
			continue
		}
		if lease {
			until = min(until, op.Invoke+simTTL-simMargin)
		}
		if until-op.Return < 10 {
			continue
		}
		planted := slices.MaxFunc(ops, func(a, b LockOp) int { return cmp.Compare(a.Hold, b.Hold) }).Hold + 1
		spoilt := make([]LockOp, 0, len(ops)+2)
		spoilt = append(spoilt, ops...)
		return append(spoilt,
			LockOp{Invoke: op.Return + 1, Return: op.Return + 3, Hold: planted, Kind: Acquire, Outcome: OK},
			LockOp{Invoke: op.Return + 4, Return: op.Return + 5, Hold: planted, Kind: Release, Outcome: OK},
		), [2]int64{op.Hold, planted}, true
	}
	return nil, [2]int64{}, false
}

// plantSale makes one read see a unit more than can have been left: more than all that
// were known to be sold when it was asked.
func plantSale(ops []StockOp, initial int64) []StockOp {
	spoilt := append([]StockOp(nil), ops...)
	certain := int64(0)
	at := len(ops) * 9 / 10
	for i := range ops {
		if op := &ops[i]; op.Kind == Buy && op.Outcome == OK && op.Return < ops[at].Invoke {
			certain++
		}
	}
	return append(spoilt, StockOp{Invoke: ops[at].Invoke, Return: ops[at].Invoke + 1, Kind: Read, Outcome: OK, Known: true, Value: initial - certain + 1})
}
