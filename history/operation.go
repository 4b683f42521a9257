package history

import (
	"fmt"
	"math"
)

// Operation is an invocation and what became of it.
type Operation struct {
	Process int
	Op      Op
	Key     string
	Hold    int64
	// Invoke and Return bound the operation, in the time of the events. An
	// operation that may yet happen has Return = [Never].
	Invoke, Return int64
	// Outcome is OK, Fail or Info. An operation still open when the history
	// ends has the outcome Info.
	Outcome Type
	// Value is what a completion returned; Known says that it did.
	Value    int64
	Known    bool
	Fence    int64
	Deadline int64
	Code     string // see [Event.Code]
	// First and Last are the indices of its events; Last is −1 if there is no
	// completion.
	First, Last int
}

// Never is the return time of an operation whose outcome is not known: it may take
// effect at any moment after its invocation.
const Never = math.MaxInt64

// Operations matches invocations with completions, in order of invocation. The
// error, if the events do not form a history, names the event's index + 2: the line
// on which [Encode] puts it.
func (h *History) Operations() ([]Operation, error) {
	var ops []Operation
	open := map[int]int{}    // process → index into ops
	dead := map[int]bool{}   // processes that met an unknown outcome
	holds := map[int64]int{} // hold → line of its acquire
	for i := range h.Events {
		e := &h.Events[i]
		line := i + 2
		if i > 0 && e.Time < h.Events[i-1].Time {
			return nil, fmt.Errorf("line %d: time %d is before that of the line above, %d", line, e.Time, h.Events[i-1].Time)
		}
		switch e.Type {
		case Note:
			continue
		case Invoke:
			if at, ok := open[e.Process]; ok {
				return nil, fmt.Errorf("line %d: process %d invokes %s while its %s of line %d is open", line, e.Process, e.Op, ops[at].Op, ops[at].First+2)
			}
			if dead[e.Process] {
				return nil, fmt.Errorf("line %d: process %d acts again after an outcome that is unknown", line, e.Process)
			}
			if e.Op == Acquire {
				if was, ok := holds[e.Hold]; ok {
					return nil, fmt.Errorf("line %d: hold %d was already asked for on line %d", line, e.Hold, was)
				}
				holds[e.Hold] = line
			}
			open[e.Process] = len(ops)
			ops = append(ops, Operation{
				Process: e.Process, Op: e.Op, Key: e.Key, Hold: e.Hold, Fence: e.Fence,
				Invoke: e.Time, Return: Never, Outcome: Info, First: i, Last: -1,
			})
		case OK, Fail, Info:
			at, ok := open[e.Process]
			if !ok {
				return nil, fmt.Errorf("line %d: process %d completes a %s that it did not invoke", line, e.Process, e.Op)
			}
			o := &ops[at]
			if o.Op != e.Op || o.Hold != e.Hold || o.Key != e.Key {
				return nil, fmt.Errorf("line %d: process %d completes %s %s of hold %d, but the open operation, line %d, is %s %s of hold %d",
					line, e.Process, e.Op, e.Key, e.Hold, o.First+2, o.Op, o.Key, o.Hold)
			}
			delete(open, e.Process)
			o.Outcome, o.Code, o.Last = e.Type, e.Code(), i
			o.Value, o.Known, o.Deadline = e.Value, e.Known, e.Deadline
			if e.Fence != 0 {
				o.Fence = e.Fence
			}
			if e.Type == Info {
				dead[e.Process] = true
			} else {
				o.Return = e.Time
			}
		default:
			return nil, fmt.Errorf("line %d: %v is no type of event", line, e.Type)
		}
	}
	return ops, nil
}
