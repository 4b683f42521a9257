// Package checker judges a trial from its history alone: one verdict for each of
// the properties in results.Properties, with the figures beside it and,
// for a violation, a counterexample small enough to read.
//
// Two judges look at mutex, lease and resource: a sweep over the sorted history and
// Porcupine's search for a linearization. A violation is what the sweep found and
// Porcupine confirmed on the counterexample; a pass is what both passed. If they ever
// disagreed the verdict would be unknown, with that as its reason.
package checker

import (
	"context"
	"fmt"
	"io"
	"time"

	"lockstress/history"
	"lockstress/results"
)

// Options of a check.
type Options struct {
	// Timeout bounds each search of Porcupine; 0 means 10 s. A search that ran out
	// of time leaves the verdict unknown.
	Timeout time.Duration
	// Memory bounds, in bytes and roughly, what one search may remember; 0 means
	// 2 GiB. Porcupine needs about n²/8 bytes for n operations on one key.
	Memory int64
	// Searchable is up to how many operations on one key Porcupine is asked for the
	// second judgement, and not a monitor; 0 means 4,000.
	Searchable int
}

// Report is the judgement on one history. Times are those of the history:
// nanoseconds since the trial's start.
type Report struct {
	// Exercised: the fault bit and operations succeeded. If not, Why says what was
	// missing.
	Exercised bool
	Why       string
	Evidence  []string // how it is known that the fault bit
	// Operations counts operations by outcome: "ok", "fail", "info".
	Operations map[string]int
	// Findings, one per name in [results.Properties] and in that order.
	Findings []Finding
	Holds    []results.Hold
	Spans    []results.Span
	// Latencies of the operations that ended ok, in order of invocation.
	Latencies map[history.Op][]time.Duration
}

// Finding is the verdict on one property.
type Finding struct {
	results.Property
	// Cut is the counterexample, nil unless violated: a history on its own, on
	// which [Check] finds the same property violated.
	Cut *history.History
	// Picture writes Porcupine's drawing of the cut as an HTML page; nil if the
	// property has no model to draw.
	Picture func(io.Writer) error
}

// Verdict on the trial as a whole: violated if any property is, else unknown if any
// is, else holds. It says nothing about Exercised.
func (r *Report) Verdict() results.Verdict {
	overall := results.NotApplicable
	for _, f := range r.Findings {
		switch f.Verdict {
		case results.Violated:
			return results.Violated
		case results.Unknown:
			overall = results.Unknown
		case results.Holds:
			if overall == results.NotApplicable {
				overall = results.Holds
			}
		}
	}
	return overall
}

// Finding returns the finding on the named property.
func (r *Report) Finding(name string) (*Finding, bool) {
	for i := range r.Findings {
		if r.Findings[i].Name == name {
			return &r.Findings[i], true
		}
	}
	return nil, false
}

// judge is one check under way.
type judge struct {
	ctx context.Context
	o   Options
	*view
}

// Check judges h. The error is for events that do not form a history, or for ctx
// ending before every verdict was reached.
func Check(ctx context.Context, h *history.History, o Options) (*Report, error) {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Memory <= 0 {
		o.Memory = 2 << 30
	}
	if o.Searchable == 0 {
		o.Searchable = searchable
	}
	v, err := newView(h)
	if err != nil {
		return nil, fmt.Errorf("checking the history: %w", err)
	}
	j := &judge{ctx, o, v}
	r := &Report{
		Operations: map[string]int{},
		Latencies:  map[history.Op][]time.Duration{},
		Holds:      v.drawnHolds(),
		Spans:      v.drawnSpans(),
	}
	for i := range v.ops {
		op := &v.ops[i]
		r.Operations[op.Outcome.String()]++
		if op.Outcome == history.OK {
			r.Latencies[op.Op] = append(r.Latencies[op.Op], time.Duration(op.Return-op.Invoke))
		}
	}
	r.Exercised, r.Why, r.Evidence = v.exercised()
	judges := map[string]func() Finding{
		"lease": j.lease, "mutex": j.mutex, "resource": j.resource, "honesty": j.honesty,
		"fencing": j.fencing, "notice": j.notice, "orphan": j.orphan, "progress": j.progress,
	}
	for _, name := range results.Properties {
		ask, ok := judges[name]
		if !ok {
			return nil, fmt.Errorf("checking the history: no judge for the property %q", name)
		}
		f := ask()
		f.Name = name
		r.Findings = append(r.Findings, f)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("checking the history, at %s: %w", name, err)
		}
	}
	return r, nil
}

func finding(v results.Verdict, figures map[string]float64, reason string, args ...any) Finding {
	if len(args) > 0 {
		reason = fmt.Sprintf(reason, args...)
	}
	return Finding{Property: results.Property{Verdict: v, Reason: reason, Figures: figures}}
}

// disagreement is what is said instead of a verdict when the two judges differ.
const disagreement = "the two judges disagree, which is a bug of this harness: please report it with the history (%s)"

// ms shows nanoseconds to a person.
func ms(ns int64) string {
	return time.Duration(ns).Round(time.Microsecond).String()
}
