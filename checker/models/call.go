package models

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"lockstress/history"
	"lockstress/history/jepsen"

	"olympos.io/encoding/edn"
)

// kind of a [call].
type kind uint8

const (
	acquire kind = iota + 1
	release
	extend
	expire // of the search for leases alone
	read
	write
	cas
	add
	subtract
)

// call is an operation as a model sees it.
type call struct {
	invoke, ret int64 // ret is history.Never for an outcome that is not known
	unsure      bool  // it may have happened or not
	kind        kind
	known       bool // a read: the value is meant
	key, owner  int32
	a, b        int64 // arguments, or what a read returned
	token       int64 // fencing token of an acquire, 0 for none
	hold        int64
	op          int // index into the operations, −1 for none
}

// translation of a history for one model: calls as they are if everything is looked at,
// and what is needed to look at a part.
type translation struct {
	m      *Model
	o      *Options
	h      *jepsen.History
	ops    []jepsen.Operation
	calls  []call // one for each operation, with ret etc. as if it ended ok
	fails  []bool // :fail that counts as "did not happen"
	sure   []bool // :ok
	keys   []string
	start  state
	values []string // of a register, by number
}

func translate(m *Model, h *jepsen.History, o *Options) (*translation, error) {
	ops, err := h.Operations()
	if err != nil {
		return nil, err
	}
	t := &translation{
		m: m, o: o, h: h, ops: ops,
		calls: make([]call, len(ops)), fails: make([]bool, len(ops)), sure: make([]bool, len(ops)),
	}
	values := interner{}
	keys := map[string]int32{}
	owners := map[int64]int32{}
	for i := range ops {
		op := &ops[i]
		first := &h.Events[op.First]
		where := func(err error) error {
			return fmt.Errorf("line %d, operation %d: %w", first.Line, first.Position, err)
		}
		k, ok := m.words[op.F]
		if !ok {
			return nil, where(fmt.Errorf("the model %s knows no %q; it knows %s", m.Name, op.F, wordList(m.words)))
		}
		c := call{kind: k, op: i, invoke: int64(op.First), ret: history.Never}
		if op.Last >= 0 {
			c.ret = int64(op.Last)
		}
		if m.timed {
			if err := t.times(op, &c); err != nil {
				return nil, where(err)
			}
		}
		if c.key, ok = keys[op.Key]; !ok {
			c.key = int32(len(t.keys))
			keys[op.Key] = c.key
			t.keys = append(t.keys, op.Key)
		}
		if c.owner, ok = owners[op.Process]; !ok {
			c.owner = int32(len(owners))
			owners[op.Process] = c.owner
		}
		t.sure[i] = op.Outcome == history.OK
		t.fails[i] = op.Outcome == history.Fail && !t.doubtful(op)
		if err := t.arguments(op, &c, values); err != nil {
			if op.Last >= 0 && t.sure[i] && k == read {
				first = &h.Events[op.Last]
			}
			return nil, where(err)
		}
		t.calls[i] = c
	}
	t.start = m.start(o)
	if err := t.initial(values); err != nil {
		return nil, err
	}
	t.values = make([]string, len(values))
	for text, n := range values {
		t.values[n] = text
	}
	return t, nil
}

func (t *translation) doubtful(op *jepsen.Operation) bool {
	if t.o.Fail == Unsure {
		return true
	}
	for _, text := range t.o.UnknownErrors {
		if text != "" && strings.Contains(op.Error, text) {
			return true
		}
	}
	return false
}

func (t *translation) times(op *jepsen.Operation, c *call) error {
	first := &t.h.Events[op.First]
	if !first.Timed {
		return errors.New("a lease is judged by time, and there is no :time")
	}
	c.invoke = first.Time
	if first.Time > 1<<62 || first.Time < -1<<62 {
		return fmt.Errorf(":time %d is out of range", first.Time)
	}
	if op.Last < 0 {
		return nil
	}
	last := &t.h.Events[op.Last]
	switch {
	case !last.Timed:
		return fmt.Errorf("a lease is judged by time, and its completion, line %d, has no :time", last.Line)
	case last.Time > 1<<62:
		return fmt.Errorf("its completion, line %d, has :time %d, which is out of range", last.Line, last.Time)
	case last.Time < first.Time:
		return fmt.Errorf("it completes, on line %d, before it is invoked: :time %d and %d", last.Line, last.Time, first.Time)
	}
	c.ret = last.Time
	return nil
}

// arguments reads the values of an operation.
func (t *translation) arguments(op *jepsen.Operation, c *call, values interner) error {
	register := t.m.words["write"] != 0
	switch c.kind {
	case acquire:
		c.token, _ = tokenOf(op.Output)
		if t.m.Name == "semaphore" {
			return t.permits(op, c)
		}
	case release:
		if t.m.Name == "semaphore" {
			return t.permits(op, c)
		}
	case read:
		if op.Outcome != history.OK {
			return nil
		}
		if op.Output == nil && (t.o.NilRead == Anything || !register) {
			return nil
		}
		c.known = true
		if register {
			c.a = values.number(op.Output)
			return nil
		}
		n, ok := op.Output.(int64)
		if !ok {
			return fmt.Errorf("a %s of a %s returns %s, not a whole number", op.F, t.m.Name, jepsen.Text(op.Output))
		}
		c.a = n
	case write:
		if op.Input == nil && op.Output != nil {
			return fmt.Errorf("the value of a %s must be on its invocation", op.F)
		}
		c.a = values.number(op.Input)
		return agree(op)
	case cas:
		pair, ok := op.Input.([]jepsen.Value)
		if !ok || len(pair) != 2 {
			return fmt.Errorf("the value of a %s is %s, not [from to]", op.F, jepsen.Text(op.Input))
		}
		c.a, c.b = values.number(pair[0]), values.number(pair[1])
		return agree(op)
	case add, subtract:
		c.a = 1
		if op.Input != nil {
			n, ok := op.Input.(int64)
			if !ok {
				return fmt.Errorf("the value of a %s is %s, not a whole number", op.F, jepsen.Text(op.Input))
			}
			c.a = n
		}
		// Sums of these must not overflow.
		if c.a > 1<<40 || c.a < -1<<40 {
			return fmt.Errorf("a %s of %d: no more than 2^40 is counted", op.F, c.a)
		}
		if c.kind == subtract {
			c.a = -c.a
		}
		c.kind = add
	}
	return nil
}

// agree refuses a completion that speaks of something else than its invocation: whether
// the write was of the one value or the other would be a guess. true, as a mere
// acknowledgement, is neither.
func agree(op *jepsen.Operation) error {
	if op.Outcome != history.OK || op.Output == nil || op.Output == true {
		return nil
	}
	if in, out := jepsen.Text(op.Input), jepsen.Text(op.Output); in != out {
		return fmt.Errorf("the %s is invoked with %s and completed with %s", op.F, in, out)
	}
	return nil
}

func (t *translation) permits(op *jepsen.Operation, c *call) error {
	c.a = 1
	switch n := op.Input.(type) {
	case nil:
	case int64:
		if n < 1 || n > 1<<40 {
			return fmt.Errorf("a %s of %d permits", op.F, n)
		}
		c.a = n
	default:
		return fmt.Errorf("the value of a %s is %s, not a number of permits", op.F, jepsen.Text(op.Input))
	}
	return nil
}

// initial reads the option of the same name.
func (t *translation) initial(values interner) error {
	_, register := t.m.words["write"]
	_, counter := t.m.words["add"]
	text := t.o.Initial
	switch {
	case text == "":
		if register {
			t.start.n = values.number(nil)
		}
	case register:
		var v any
		if err := edn.UnmarshalString(text, &v); err != nil {
			return fmt.Errorf("the initial value %q is not EDN: %w", text, err)
		}
		t.start.n = values.number(jepsen.FromEDN(v))
	case counter:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > 1<<40 || n < -1<<40 {
			return fmt.Errorf("the initial value %q of a counter is not a whole number up to 2^40", text)
		}
		t.start.n = n
	default:
		return fmt.Errorf("the model %s has no initial value to set to %q", t.m.Name, text)
	}
	return nil
}

// prefix returns the calls of the first n events, in order of invocation: what has not
// completed by then is unsure, and what is known not to have happened is left out.
func (t *translation) prefix(n int) []call {
	calls := make([]call, 0, len(t.calls))
	for i := range t.calls {
		op := &t.ops[i]
		if op.First >= n {
			break
		}
		c := t.calls[i]
		done := op.Last >= 0 && op.Last < n
		switch {
		case done && t.fails[i]:
			continue
		case done && t.sure[i]:
			if c.kind == read && !c.known {
				continue
			}
		case c.kind == read:
			continue
		default:
			c.unsure, c.ret, c.token = true, history.Never, 0
		}
		calls = append(calls, c)
	}
	return calls
}

// interner numbers values: equal ones alike.
type interner map[string]int64

func (in interner) number(v jepsen.Value) int64 {
	text := jepsen.Text(v)
	n, ok := in[text]
	if !ok {
		n = int64(len(in))
		in[text] = n
	}
	return n
}

// tokenOf finds a fencing token in the value of an acquire: a number, or the number
// under fence, token or fencing-token in a map.
func tokenOf(v jepsen.Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, v != 0
	case map[string]jepsen.Value:
		for _, name := range []string{"fence", "token", "fencing-token"} {
			if n, ok := v[name].(int64); ok {
				return n, n != 0
			}
		}
	}
	return 0, false
}
