// Package monitor judges histories of locks, leases, fencing tokens and stock
// counters in near-linear time, however long they are.
//
// Each monitor decides linearizability against one sequential specification: is there
// a moment for every operation, within its interval, so that the operations, taken in
// the order of those moments, obey the specification? A general search needs time that
// grows exponentially; these objects have enough structure for a sweep through time
// that keeps a handful of possible states. docs/checking.md gives each specification,
// how outcomes are read, why the sweep is exact, and where it is not.
//
// Times are int64 in any unit. Intervals are closed: operations that touch are
// concurrent. Operations may be given in any order.
package monitor

import (
	"fmt"
	"math"
)

// Never is the return time of an operation whose outcome is not known: it may take
// effect at any moment from its invocation on, or not at all.
const Never = math.MaxInt64

// Result of a monitor.
type Result uint8

const (
	// Unknown: the monitor cannot tell. It is never a pass.
	Unknown Result = iota
	Legal
	Illegal
)

// String returns "unknown", "legal" or "illegal".
func (r Result) String() string {
	switch r {
	case Unknown:
		return "unknown"
	case Legal:
		return "legal"
	case Illegal:
		return "illegal"
	}
	return fmt.Sprintf("result %d", uint8(r))
}

// Outcome of an operation.
type Outcome uint8

const (
	// OK: it happened, and said so.
	OK Outcome = iota + 1
	// Fail: the object declined (busy, not held, sold out), which is an
	// observation of its state too. An operation that failed for a reason that
	// says nothing about the state must be left out.
	Fail
	// Info: it may have happened, or may yet; Return means nothing and is taken
	// to be [Never].
	Info
)

// Verdict of a monitor on a history.
type Verdict struct {
	Result Result
	// Reason says in words why the history is illegal, or why the monitor
	// cannot tell. It is empty for a legal one.
	Reason string
	// Key is the key concerned, if the verdict is not legal.
	Key int32
	// Witness holds the indices of the operations at which legality ended:
	// those that cannot be reconciled with one another, or, for counters, the
	// operation that was one too many with the one it runs into. They are few,
	// and a place to look; [Result] rests on the whole history.
	Witness []int
}

func legal() Verdict { return Verdict{Result: Legal} }

func illegal(witness []int, format string, args ...any) Verdict {
	return Verdict{Result: Illegal, Reason: fmt.Sprintf(format, args...), Witness: witness}
}

func unknown(witness []int, format string, args ...any) Verdict {
	return Verdict{Result: Unknown, Reason: fmt.Sprintf(format, args...), Witness: witness}
}

// after returns t + d, clamped to the range of int64.
func after(t, d int64) int64 {
	switch {
	case d > 0 && t > math.MaxInt64-d:
		return math.MaxInt64
	case d < 0 && t < math.MinInt64-d:
		return math.MinInt64
	}
	return t + d
}
