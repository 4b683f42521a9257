package models

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"lockstress/checker/monitor"
	"lockstress/history"

	"github.com/anishathalye/porcupine"
)

// counted is a state, and how many certain calls have led to it.
type counted struct {
	state
	certain int
}

// search asks Porcupine. A call of unknown outcome returns never. It may happen wherever
// it is legal; one that does not happen stands at the very end, behind all that are
// certain, and leaves the state alone.
func (m *Model) search(ctx context.Context, calls []call, start state, o *Options) monitor.Verdict {
	keys := map[int32][]porcupine.Operation{}
	var order []int32
	certain := map[int32]int{}
	longest := 0
	for i := range calls {
		c := &calls[i]
		if keys[c.key] == nil {
			order = append(order, c.key)
		}
		keys[c.key] = append(keys[c.key], porcupine.Operation{Input: c, Call: c.invoke, Return: c.ret})
		if m.timed && (c.kind == acquire || c.kind == extend) {
			at := *c
			at.kind, at.unsure, at.ret = expire, true, history.Never
			at.invoke = c.invoke + max(0, int64(o.TTL-o.Margin))
			keys[c.key] = append(keys[c.key], porcupine.Operation{Input: &at, Call: at.invoke, Return: at.ret})
		}
		if !c.unsure {
			certain[c.key]++
		}
		longest = max(longest, len(keys[c.key]))
	}
	// Porcupine remembers each step taken with a bit set of the partition's length.
	each := int64(longest/8 + 160)
	var used atomic.Int64
	var spent atomic.Bool
	model := func(all int) porcupine.Model {
		return porcupine.Model{
			Init: func() any { return counted{state: start} },
			StepContext: func(inner context.Context, s, in, _ any) (bool, any) {
				if spent.Load() || inner.Err() != nil {
					return false, s
				}
				c := in.(*call)
				was := s.(counted)
				next, ok := m.apply(was.state, c, o)
				if !ok {
					return c.unsure && was.certain == all, s
				}
				if n := used.Add(each); n > o.Memory || (n/each)%256 == 1 && ctx.Err() != nil {
					spent.Store(true)
				}
				if !c.unsure {
					was.certain++
				}
				return true, counted{next, was.certain}
			},
		}
	}
	deadline := time.Now().Add(o.Timeout)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	verdict := monitor.Verdict{Result: monitor.Legal}
	for _, key := range order {
		result := porcupine.CheckOperationsTimeout(model(certain[key]), keys[key], max(time.Until(deadline), 1))
		switch {
		case ctx.Err() != nil:
			return monitor.Verdict{Reason: "the check was called off", Key: key}
		case spent.Load():
			// Steps were refused for want of memory: "illegal" means nothing then.
			return monitor.Verdict{Key: key, Reason: fmt.Sprintf("the search of %d operations would need more than %d MB", len(keys[key]), o.Memory>>20)}
		case result == porcupine.Illegal:
			return monitor.Verdict{Result: monitor.Illegal, Key: key, Reason: fmt.Sprintf("no order of the %d operations is legal", len(keys[key]))}
		case result == porcupine.Unknown:
			verdict = monitor.Verdict{Key: key, Reason: fmt.Sprintf("the search of %d operations did not end within %v", len(keys[key]), o.Timeout)}
		}
	}
	return verdict
}

// tooMany is from how many calls on one key a search is not even begun: its memory grows
// with their square.
func tooMany(calls []call, memory int64) bool {
	counts := map[int32]float64{}
	most := 0.0
	for i := range calls {
		counts[calls[i].key]++
		most = max(most, counts[calls[i].key])
	}
	return most > math.Sqrt(8*float64(memory))
}
