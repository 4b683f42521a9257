package monitor

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// Grant is a successful acquire with its fencing token.
type Grant struct {
	Invoke, Return int64
	Token          int64
	Key            int32
}

// Fencing judges fencing tokens: those of one key differ, and a grant that returned
// before another was asked for has the smaller one. This is exact for a dispenser of
// rising tokens, lock or no lock: grants can be put in an order of rising tokens that
// respects real time if and only if no two of them contradict.
//
// Comparing by order of return alone would be wrong for leases: a grant may be so slow
// to return that it has expired and somebody else was granted the lock in between. Where
// mutual exclusion is certain, [FencedLock] compares more than this.
func Fencing(grants []Grant) Verdict {
	for i := range grants {
		if grants[i].Return < grants[i].Invoke {
			return unknown([]int{i}, "grant %d returns before it is invoked", i)
		}
	}
	byInvoke := make([]int32, len(grants))
	for i := range byInvoke {
		byInvoke[i] = int32(i)
	}
	slices.SortFunc(byInvoke, func(a, b int32) int { return cmp.Compare(grants[a].Invoke, grants[b].Invoke) })
	var f Fences
	for _, b := range byInvoke {
		a, ok := f.Add(grants[b], int(b))
		if ok {
			continue
		}
		v := illegal([]int{a, int(b)}, "token %d is given after token %d had been", grants[b].Token, grants[a].Token)
		if grants[a].Token == grants[b].Token {
			v.Reason = fmt.Sprintf("token %d is given twice", grants[b].Token)
		}
		v.Key = grants[b].Key
		return v
	}
	return legal()
}

// Fences is [Fencing] one grant at a time, in the order of their invocations. It keeps
// the grants that have not returned yet, and one more per key. The zero value is ready.
type Fences struct {
	keys map[int32]*dispenser
}

type dispenser struct {
	newest int64 // token; of those that have returned, the largest
	index  int   // of its grant, −1 if there is none
	open   returns
}

// Add takes the next grant. It returns false, and the index given with an earlier
// grant, if the two contradict each other.
func (f *Fences) Add(g Grant, index int) (earlier int, ok bool) {
	if f.keys == nil {
		f.keys = map[int32]*dispenser{}
	}
	d := f.keys[g.Key]
	if d == nil {
		d = &dispenser{index: -1}
		f.keys[g.Key] = d
	}
	for len(d.open) > 0 && d.open[0].Return < g.Invoke {
		if was := heap.Pop(&d.open).(numbered); d.index < 0 || was.Token > d.newest {
			d.newest, d.index = was.Token, was.index
		}
	}
	earlier, ok = d.index, d.index < 0 || d.newest < g.Token
	for i := range d.open {
		if d.open[i].Token == g.Token {
			earlier, ok = d.open[i].index, false
		}
	}
	heap.Push(&d.open, numbered{g, index})
	return earlier, ok
}

type numbered struct {
	Grant
	index int
}

// returns is a heap of grants by their return.
type returns []numbered

func (r returns) Len() int           { return len(r) }
func (r returns) Less(i, j int) bool { return r[i].Return < r[j].Return }
func (r returns) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *returns) Push(x any)        { *r = append(*r, x.(numbered)) }
func (r *returns) Pop() any {
	last := len(*r) - 1
	g := (*r)[last]
	*r = (*r)[:last]
	return g
}

// FencedLock judges a lock whose grants carry rising tokens: acquire(h) with token n is
// legal if the lock is free and n is larger than every token before. tokens has the
// token of each operation, 0 where there is none.
//
// It is exact if the release of every grant with a token, if any, was invoked after the
// grant had returned; otherwise the verdict is Unknown, unless real time or the lock
// alone decide.
func FencedLock(ops []LockOp, tokens []int64, rules LockRules) Verdict {
	return fenced(ops, tokens, func(ops []LockOp) (*tenures, Verdict) {
		return newTenures(ops, rules, nil)
	}, func(ops []LockOp) Verdict { return Lock(ops, rules) })
}

// FencedLease is [FencedLock] for a [Lease]. A grant that may have expired before it
// returned is outside of what it can order by tokens.
func FencedLease(ops []LockOp, tokens []int64, rules LeaseRules) Verdict {
	return fenced(ops, tokens, func(ops []LockOp) (*tenures, Verdict) {
		return newTenures(ops, rules.LockRules, &rules)
	}, func(ops []LockOp) Verdict { return Lease(ops, rules) })
}

type tokenOp struct {
	LockOp
	token int64
}

func fenced(ops []LockOp, tokens []int64, understand func([]LockOp) (*tenures, Verdict), judge func([]LockOp) Verdict) Verdict {
	if len(tokens) != len(ops) {
		return unknown(nil, "%d operations have %d tokens", len(ops), len(tokens))
	}
	if v := judge(ops); v.Result != Legal {
		return v
	}
	all := make([]tokenOp, len(ops))
	for i := range ops {
		all[i] = tokenOp{ops[i], tokens[i]}
	}
	return eachKey(all, func(op *tokenOp) int32 { return op.Key }, func(all []tokenOp) Verdict {
		ops := make([]LockOp, len(all))
		var grants []Grant
		var from []int // grant → operation
		for i := range all {
			ops[i] = all[i].LockOp
			if op := &ops[i]; all[i].token != 0 && op.Kind == Acquire && op.Outcome == OK {
				grants = append(grants, Grant{op.Invoke, op.Return, all[i].token, op.Key})
				from = append(from, i)
			}
		}
		// What contradicts real time contradicts it with any lock.
		if v := Fencing(grants); v.Result != Legal {
			for i, w := range v.Witness {
				v.Witness[i] = from[w]
			}
			return v
		}
		t, v := understand(ops)
		if v.Result != Legal {
			return v
		}
		return t.rising(all)
	})
}

// rising judges the tokens of fixed tenures, whose order is known.
func (t *tenures) rising(all []tokenOp) Verdict {
	var line []int32
	for h := range t.all {
		if u := &t.all[h]; u.acquire >= 0 && t.ops[u.acquire].Outcome == OK && all[u.acquire].token != 0 {
			if u.class != fixed {
				return unknown([]int{int(u.acquire)}, "hold %d may have ended before it returned, so its token has no place in the order", t.ops[u.acquire].Hold)
			}
			line = append(line, int32(h))
		}
	}
	slices.SortFunc(line, func(a, b int32) int { return cmp.Compare(t.all[a].start2, t.all[b].start2) })
	for i := 1; i < len(line); i++ {
		a, b := &t.all[line[i-1]], &t.all[line[i]]
		if all[a.acquire].token >= all[b.acquire].token {
			return illegal([]int{int(a.acquire), int(b.acquire)}, "token %d is given for a hold after that of token %d", all[b.acquire].token, all[a.acquire].token)
		}
	}
	return legal()
}
