package checker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// search asks Porcupine whether ops are linearizable. why says, for an Unknown,
// what it ran out of.
func (j *judge) search(m porcupine.Model, ops []porcupine.Operation) (result porcupine.CheckResult, why string) {
	longest := len(ops)
	if m.Partition != nil {
		parts := m.Partition(ops)
		longest = 0
		for _, p := range parts {
			longest = max(longest, len(p))
		}
		m.Partition = func([]porcupine.Operation) [][]porcupine.Operation { return parts }
	}
	// Each step that is taken is remembered with a bit set of the partition's length.
	step, each := m.Step, int64(longest/8+160)
	var used atomic.Int64
	var spent, ended atomic.Bool
	m.StepContext = func(ctx context.Context, state, in, out any) (bool, any) {
		if spent.Load() || ctx.Err() != nil {
			return false, nil
		}
		ok, next := step(state, in, out)
		if ok {
			// Every so often: asking a context costs more than a step.
			if n := used.Add(each); n > j.o.Memory {
				spent.Store(true)
			} else if (n/each)%256 == 1 && j.ctx.Err() != nil {
				ended.Store(true)
				spent.Store(true)
			}
		}
		return ok, next
	}
	timeout := j.o.Timeout
	if at, ok := j.ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(at)), 1)
	}
	switch result := porcupine.CheckOperationsTimeout(m, ops, timeout); {
	case ended.Load() || j.ctx.Err() != nil:
		return porcupine.Unknown, "the check was called off"
	case spent.Load():
		// Steps were refused for want of memory: "illegal" means nothing then.
		return porcupine.Unknown, fmt.Sprintf("the search of %d operations would need more than %d MB", len(ops), j.o.Memory>>20)
	case result == porcupine.Unknown:
		return result, fmt.Sprintf("the search of %d operations did not end within %v", len(ops), j.o.Timeout)
	default:
		return result, ""
	}
}
