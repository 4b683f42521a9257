package models

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"lockstress/checker/monitor"
	"lockstress/history"
	"lockstress/history/jepsen"
)

// Verdict on a history.
type Verdict struct {
	Result monitor.Result
	// Reason of a verdict that is not legal.
	Reason string
	// Engine is who decided: "monitor" or "search".
	Engine Engine
	Rules  []string // how outcomes were read
	Counts []Count  // operations by word and outcome, in order of appearance
	Keys   int
	// Counterexample is nil unless the history is illegal.
	Counterexample *Counterexample
}

// Count of the operations with one word.
type Count struct {
	F                    string
	OK, Fail, Info, Open int // Open: without a completion, read as Info
}

// Counterexample shows where legality ended.
type Counterexample struct {
	// Last is the event with which the shortest illegal prefix of the history
	// ends: without it, the rest before it is legal. Events is its length.
	Last   jepsen.Event
	Events int
	// Shortest: no shorter prefix is illegal. If not, a search for one ran out of
	// time.
	Shortest bool
	// Steps are operations of that prefix which are wrong by themselves, Last's
	// included; nil if there is no way to choose them that proves it.
	Steps []Step
	// Method says why these suffice.
	Method string
	// Needed: leaving any more of them out, in the way of Method, makes the rest
	// legal.
	Needed bool
}

// Step is an operation of a counterexample.
type Step struct {
	Process  int64
	F, Key   string
	Input    jepsen.Value
	Output   jepsen.Value
	Outcome  history.Type // as it stood at the end of the prefix
	Ignored  bool         // a failure that counts as "did not happen"
	Error    string
	Invoked  int // position in the file
	Returned int // −1 if it had not by then
	Line     int // of the invocation
}

// judge decides on calls, and says who did.
func (m *Model) judge(ctx context.Context, calls []call, start state, o *Options) (monitor.Verdict, Engine) {
	if m.monitor != nil && o.Engine != Search {
		shifted := *o
		shifted.initial = start.n
		if m.Name == "mutex" {
			shifted.Permits = 1
		}
		if v, exact := m.monitor(m.begin(calls, start), &shifted); exact {
			if v.Result != monitor.Unknown || o.Engine == Monitor {
				return v, Monitor
			}
		} else if o.Engine == Monitor {
			return monitor.Verdict{Reason: "the monitor of this model is not exact for these operations: a process goes on after an outcome that is unknown, or amounts differ"}, Monitor
		}
	} else if o.Engine == Monitor {
		return monitor.Verdict{Reason: fmt.Sprintf("the model %s has no monitor", m.Name)}, Monitor
	}
	if tooMany(calls, o.Memory) {
		return monitor.Verdict{Reason: fmt.Sprintf("a search among so many operations of one key would need more than %d MB", o.Memory>>20)}, Search
	}
	return m.search(ctx, calls, start, o), Search
}

// begin puts acquires before everything else that bring a semaphore into its state.
func (m *Model) begin(calls []call, start state) []call {
	if m.owned || m.words["acquire"] == 0 || start.n == 0 || len(calls) == 0 {
		return calls
	}
	all := make([]call, 0, len(calls)+int(start.n))
	for range start.n {
		all = append(all, call{invoke: -1, ret: -1, kind: acquire, key: calls[0].key, op: -1})
	}
	return append(all, calls...)
}

// Check judges h. The error is for a history that the model cannot read, for options
// that make no sense, or for ctx ending.
func (m *Model) Check(ctx context.Context, h *jepsen.History, o Options) (*Verdict, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if m.timed && o.TTL == 0 {
		return nil, errors.New("a lease needs its TTL (--ttl)")
	}
	t, err := translate(m, h, &o)
	if err != nil {
		return nil, err
	}
	verdict := &Verdict{Rules: m.Rules(o), Counts: count(t.ops), Keys: len(t.keys)}
	var v monitor.Verdict
	v, verdict.Engine = m.judge(ctx, t.prefix(len(h.Events)), t.start, &o)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("checking the history: %w", err)
	}
	verdict.Result, verdict.Reason = v.Result, v.Reason
	if v.Result == monitor.Illegal {
		verdict.Counterexample = t.counterexample(ctx, v)
		last := &verdict.Counterexample.Last
		verdict.Reason = fmt.Sprintf("with the %s of process %d's %s at index %d there is no order of the operations any more that is legal", last.Type, last.Process, last.F, last.Index)
	}
	return verdict, nil
}

func count(ops []jepsen.Operation) []Count {
	var counts []Count
	at := map[string]int{}
	for i := range ops {
		op := &ops[i]
		n, ok := at[op.F]
		if !ok {
			n = len(counts)
			at[op.F] = n
			counts = append(counts, Count{F: op.F})
		}
		c := &counts[n]
		switch {
		case op.Last < 0:
			c.Open++
		case op.Outcome == history.OK:
			c.OK++
		case op.Outcome == history.Fail:
			c.Fail++
		default:
			c.Info++
		}
	}
	return counts
}

// counterexample finds the shortest illegal prefix, by halving: once a prefix is illegal
// every longer one is, since what has not completed in it may have happened or not.
func (t *translation) counterexample(ctx context.Context, v monitor.Verdict) *Counterexample {
	key, engine := v.Key, *t.o
	engine.Timeout /= 2
	x := &Counterexample{Events: len(t.h.Events), Shortest: true}
	x.Events = 1 + sort.Search(len(t.h.Events)-1, func(n int) bool {
		part, _ := t.m.judge(ctx, only(t.prefix(n+1), key), t.start, &engine)
		x.Shortest = x.Shortest && part.Result != monitor.Unknown
		return part.Result == monitor.Illegal
	})
	x.Last = t.h.Events[x.Events-1]
	t.shrink(ctx, x, key, &engine)
	return x
}

func only(calls []call, key int32) []call {
	var kept []call
	for _, c := range calls {
		if c.key == key {
			kept = append(kept, c)
		}
	}
	return kept
}
