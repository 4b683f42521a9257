// Package models judges histories of other people's tools against a named sequential
// specification: a mutex, a lease, a register …
//
// Where an exact monitor exists (package monitor) it decides, in near-linear time;
// otherwise Porcupine searches, within a time limit, and what it cannot decide in it is
// unknown. Both read the same calls: the search is the reference for the monitors.
package models

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstress/checker/monitor"
	"lockstress/history/jepsen"

	"github.com/agnivade/levenshtein"
)

// Model is a sequential specification with a name.
type Model struct {
	Name string
	// Specification in words.
	Specification string
	// Words for :f that the model knows, by what they mean.
	words map[string]kind

	// apply is one step of the specification. It returns false if the call is
	// not legal in this state.
	apply func(s state, c *call, o *Options) (state, bool)
	start func(o *Options) state
	// monitor decides, or returns false if the calls are outside of what it is
	// exact for. nil: the model has none.
	monitor func(calls []call, o *Options) (monitor.Verdict, bool)
	// units groups calls such that a legal history stays legal if whole groups
	// are left out; so an illegal remainder proves the whole illegal. nil: none.
	units func(calls []call) [][]int
	// omits says in words what units leaves out.
	omits string
	// cuts finds moments from which a history can be looked at by itself, in
	// order. nil: there are none.
	cuts func(calls []call, start state, o *Options) []cut
	// owned: calls are read with their hold of the lock.
	owned bool
	timed bool // judged by :time, not by position
	notes func(o *Options) []string
}

// FailRule says how :fail is read.
type FailRule string

const (
	// Certain: a call that failed did not happen, and never will (Jepsen's and
	// Knossos's rule). What it answered is not judged.
	Certain FailRule = "certain"
	// Unsure: a call that failed may have happened nevertheless, then or later.
	Unsure FailRule = "unknown"
)

// NilRule says how a read that returned nil is read.
type NilRule string

const (
	Anything NilRule = "anything" // it says nothing (Knossos's rule)
	Empty    NilRule = "empty"    // the register held nil
)

// Engine that decides.
type Engine string

const (
	Auto    Engine = "auto"    // the monitor where it is exact, else the search
	Monitor Engine = "monitor" // the monitor or nobody
	Search  Engine = "search"  // Porcupine, the reference
)

// Options of a check. The zero value is ready, but for a lease, which needs a TTL.
type Options struct {
	Fail FailRule // "" means Certain
	// UnknownErrors: a :fail whose :error contains one of these texts is read as
	// unknown, whatever Fail says.
	UnknownErrors []string
	// Initial value of a register or counter as EDN text; "" means nil, for a
	// counter 0.
	Initial string
	NilRead NilRule // "" means Anything
	// Permits of a semaphore; 0 means 1.
	Permits int
	// Depth is how often a reentrant mutex may be held at once; 0 means any.
	Depth int
	// TTL and Margin of a lease: it may end by itself from the invocation of its
	// acquire or latest extension + TTL − Margin on.
	TTL, Margin time.Duration
	Engine      Engine // "" means Auto
	// Timeout bounds each search; 0 means 30 s. Memory bounds, in bytes and
	// roughly, what one may remember; 0 means 1 GiB.
	Timeout time.Duration
	Memory  int64

	initial int64 // of a counter, for its monitor
}

func (o *Options) complete() error {
	if o.Fail == "" {
		o.Fail = Certain
	}
	if o.NilRead == "" {
		o.NilRead = Anything
	}
	if o.Engine == "" {
		o.Engine = Auto
	}
	if o.Permits == 0 {
		o.Permits = 1
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Memory <= 0 {
		o.Memory = 1 << 30
	}
	switch {
	case o.Fail != Certain && o.Fail != Unsure:
		return fmt.Errorf("the rule for failures is %q, not certain or unknown", o.Fail)
	case o.NilRead != Anything && o.NilRead != Empty:
		return fmt.Errorf("the rule for nil is %q, not anything or empty", o.NilRead)
	case o.Engine != Auto && o.Engine != Monitor && o.Engine != Search:
		return fmt.Errorf("the engine is %q, not auto, monitor or search", o.Engine)
	case o.Permits < 1:
		return fmt.Errorf("a semaphore of %d permits is none", o.Permits)
	case o.TTL > 1<<61 || o.Margin > 1<<61:
		return fmt.Errorf("TTL %v, margin %v: a lease of more than 73 years is none", o.TTL, o.Margin)
	case o.Depth < 0 || o.TTL < 0 || o.Margin < 0:
		return fmt.Errorf("depth %d, TTL %v, margin %v: none may be negative", o.Depth, o.TTL, o.Margin)
	}
	return nil
}

// ByName returns the named model, or an error that lists them.
func ByName(name string) (Model, error) {
	all := All()
	for _, m := range all {
		if m.Name == name {
			return m, nil
		}
	}
	near := slices.MinFunc(all, func(a, b Model) int {
		return levenshtein.ComputeDistance(name, a.Name) - levenshtein.ComputeDistance(name, b.Name)
	})
	return Model{}, fmt.Errorf("unknown model %q: did you mean %s? There are %s", name, near.Name, Names())
}

// Names lists the models.
func Names() string {
	var names []string
	for _, m := range All() {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// Guess names the model that fits the words of a history best; "" if none does.
func Guess(h *jepsen.History) string {
	words := map[string]bool{}
	tokens := false
	for i := range h.Events {
		e := &h.Events[i]
		words[e.F] = true
		if _, ok := tokenOf(e.Value); ok && lockWords[e.F] == acquire {
			tokens = true
		}
	}
	order := []string{"register", "cas-register", "counter", "mutex", "lease"}
	if tokens {
		order = []string{"register", "cas-register", "counter", "fenced-mutex", "lease"}
	}
	for _, name := range order {
		m, err := ByName(name)
		if err != nil || len(words) == 0 {
			continue
		}
		fits := true
		for w := range words {
			if _, ok := m.words[w]; !ok {
				fits = false
			}
		}
		if fits {
			return name
		}
	}
	return ""
}

// Rules says in words how outcomes are read.
func (m *Model) Rules(o Options) []string {
	if err := o.complete(); err != nil {
		return nil
	}
	var rules []string
	if o.Fail == Certain {
		rules = append(rules, ":fail means that the call did not happen and never will; its answer is not judged (--fail certain)")
		for _, text := range o.UnknownErrors {
			rules = append(rules, fmt.Sprintf("a :fail with %q in its :error is read as unknown (--unknown-error)", text))
		}
	} else {
		rules = append(rules, ":fail means that the call may have happened nevertheless, then or later (--fail unknown)")
	}
	rules = append(rules, ":info, and a call without a completion, may have happened at any moment from the invocation on, or may yet")
	if m.timed {
		rules = append(rules, "order is that of :time")
	} else {
		rules = append(rules, "order is that of the file; :time and :index are not looked at")
	}
	if m.owned {
		rules = append(rules, "the owner of the lock is the process")
	}
	if m.notes != nil {
		rules = append(rules, m.notes(&o)...)
	}
	return rules
}
