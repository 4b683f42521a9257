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
	n := 0
	for i := range h.Events {
		if h.Events[i].Type == Invoke {
			n++
		}
	}
	ops := make([]Operation, 0, n)
	err := h.pair(func(i int) {
		e := &h.Events[i]
		ops = append(ops, Operation{
			Process: e.Process, Op: e.Op, Key: e.Key, Hold: e.Hold, Fence: e.Fence,
			Invoke: e.Time, Return: Never, Outcome: Info, First: i, Last: -1,
		})
	}, func(at, i int) {
		e, o := &h.Events[i], &ops[at]
		o.Outcome, o.Code, o.Last = e.Type, e.Code(), i
		o.Value, o.Known, o.Deadline = e.Value, e.Known, e.Deadline
		if e.Fence != 0 {
			o.Fence = e.Fence
		}
		if e.Type != Info {
			o.Return = e.Time
		}
	})
	if err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, nil
	}
	return ops, nil
}

// valid returns the error of [History.Operations] at a part of the cost.
func (h *History) valid() error {
	return h.pair(func(int) {}, func(int, int) {})
}

// pair goes through the events. It calls invoked for every invocation, with the index of
// its event, and completed for every completion, with the number of the invocation that
// it belongs to and the index of its own event.
func (h *History) pair(invoked func(i int), completed func(n, i int)) error {
	// What a process is about: 0 for nothing, the index of the invocation + 1, or
	// dead after an unknown outcome.
	const dead = -1
	type business struct{ event, number int32 }
	if len(h.Events) > math.MaxInt32-2 {
		return fmt.Errorf("a history of %d events is too long", len(h.Events))
	}
	about := newNumbered[business](len(h.Events))
	asked := newNumbered[int32](len(h.Events)) // hold → line of its acquire
	n := 0
	for i := range h.Events {
		e := &h.Events[i]
		line := i + 2
		if i > 0 && e.Time < h.Events[i-1].Time {
			return fmt.Errorf("line %d: time %d is before that of the line above, %d", line, e.Time, h.Events[i-1].Time)
		}
		switch e.Type {
		case Note:
			continue
		case Invoke:
			b := about.get(int64(e.Process))
			if b.event > 0 {
				open := &h.Events[b.event-1]
				return fmt.Errorf("line %d: process %d invokes %s while its %s of line %d is open", line, e.Process, e.Op, open.Op, b.event+1)
			}
			if b.event == dead {
				return fmt.Errorf("line %d: process %d acts again after an outcome that is unknown", line, e.Process)
			}
			if e.Op == Acquire {
				if was := asked.get(e.Hold); was != 0 {
					return fmt.Errorf("line %d: hold %d was already asked for on line %d", line, e.Hold, was)
				}
				asked.set(e.Hold, int32(line))
			}
			about.set(int64(e.Process), business{int32(i + 1), int32(n)})
			n++
			invoked(i)
		case OK, Fail, Info:
			b := about.get(int64(e.Process))
			if b.event <= 0 {
				return fmt.Errorf("line %d: process %d completes a %s that it did not invoke", line, e.Process, e.Op)
			}
			o := &h.Events[b.event-1]
			if o.Op != e.Op || o.Hold != e.Hold || o.Key != e.Key {
				return fmt.Errorf("line %d: process %d completes %s %s of hold %d, but the open operation, line %d, is %s %s of hold %d",
					line, e.Process, e.Op, e.Key, e.Hold, b.event+1, o.Op, o.Key, o.Hold)
			}
			if e.Type == Info {
				about.set(int64(e.Process), business{dead, 0})
			} else {
				about.set(int64(e.Process), business{})
			}
			completed(int(b.number), i)
		default:
			return fmt.Errorf("line %d: %v is no type of event", line, e.Type)
		}
	}
	return nil
}

// numbered is a map from numbers that usually are small: a slice then.
type numbered[V any] struct {
	dense  []V
	sparse map[int64]V
	limit  int64
}

// newNumbered makes one for n entries or so.
func newNumbered[V any](n int) *numbered[V] {
	return &numbered[V]{sparse: map[int64]V{}, limit: 4*int64(n) + 64}
}

func (m *numbered[V]) get(key int64) V {
	if uint64(key) < uint64(len(m.dense)) {
		return m.dense[key]
	}
	return m.sparse[key]
}

func (m *numbered[V]) set(key int64, v V) {
	switch {
	case key < 0 || key >= m.limit:
		m.sparse[key] = v
		return
	case key >= int64(len(m.dense)):
		grown := make([]V, min(max(2*key, 64), m.limit))
		copy(grown, m.dense)
		m.dense = grown
	}
	m.dense[key] = v
}
