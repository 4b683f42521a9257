package checker

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"

	"lockstress/results"
)

// fencing judges whether tokens rise in the order of grants. Grants are ordered as
// far as real time orders them: one that was answered before another was asked for.
func (j *judge) fencing() Finding {
	if !j.h.Header.Fences {
		return finding(results.NotApplicable, nil, "the lock gives no fencing tokens")
	}
	byKey := map[string][]*hold{} // in order of invocation
	var keys []string
	tokens, missing := 0, 0
	for _, d := range j.grants() {
		if d.acquire.Fence == 0 {
			missing++
			continue
		}
		tokens++
		if byKey[d.key] == nil {
			keys = append(keys, d.key)
		}
		byKey[d.key] = append(byKey[d.key], d)
	}
	if tokens == 0 {
		return finding(results.NotApplicable, nil, "no grant came with a fencing token")
	}
	var repeats, reversals int
	var first []*hold
	for _, key := range keys {
		var returned []*hold
		last := map[int64]*hold{}
		for _, d := range byKey[key] {
			if was, ok := last[d.acquire.Fence]; ok {
				repeats++
				if first == nil {
					first = []*hold{was, d}
				}
			}
			last[d.acquire.Fence] = d
			returned = append(returned, d)
		}
		slices.SortStableFunc(returned, func(a, b *hold) int { return cmp.Compare(a.acquire.Return, b.acquire.Return) })
		var highest *hold
		at := 0
		for _, d := range byKey[key] {
			for at < len(returned) && returned[at].acquire.Return < d.acquire.Invoke {
				if r := returned[at]; highest == nil || r.acquire.Fence > highest.acquire.Fence {
					highest = r
				}
				at++
			}
			if highest != nil && highest.acquire.Fence > d.acquire.Fence {
				reversals++
				if first == nil {
					first = []*hold{highest, d}
				}
			}
		}
	}
	figures := map[string]float64{"repeats": float64(repeats), "reversals": float64(reversals), "missing": float64(missing)}
	if first == nil {
		return finding(results.Holds, figures, "")
	}
	a, b := first[0], first[1]
	cut := j.cutPieces([]piece{{hold: a}, {hold: b}}, true)
	v, err := newView(cut)
	if err != nil {
		return finding(results.Unknown, figures, "the counterexample is no history: %v", err)
	}
	if result, why := j.search(tokenModel, v.tokenOps()); result == porcupine.Unknown {
		return finding(results.Unknown, figures, why)
	} else if result == porcupine.Ok {
		return finding(results.Unknown, figures, disagreement, "the search passes what the sweep refutes")
	}
	f := finding(results.Violated, figures, "hold %d of client %d got token %d, and hold %d of client %d, asked for later, got token %d",
		a.id, a.client, a.acquire.Fence, b.id, b.client, b.acquire.Fence)
	f.Cut, f.Picture = cut, picture(cut, tokenModel, (*view).tokenOps)
	return f
}

// token is an operation of the token model: a grant of a lock.
type token struct {
	key   string
	fence int64
	text  string
}

// tokenModel is a counter that every grant must exceed.
var tokenModel = porcupine.Model{
	Partition:         byKey(func(in any) string { return in.(token).key }),
	Init:              func() any { return int64(-1 << 63) },
	Step:              func(state, in, _ any) (bool, any) { return in.(token).fence > state.(int64), in.(token).fence },
	DescribeOperation: func(in, _ any) string { return in.(token).text },
}

func (v *view) tokenOps() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, d := range v.grants() {
		if d.acquire.Fence != 0 {
			ops = append(ops, porcupine.Operation{
				ClientId: d.acquire.Process, Call: d.acquire.Invoke, Return: d.acquire.Return,
				Input: token{d.key, d.acquire.Fence, v.describe(d.acquire)},
			})
		}
	}
	return ops
}
