// Package jepsen reads histories that other people's tools have recorded: Jepsen's EDN,
// as one vector of operation maps or one map after another, and the same as a JSON
// array or JSON lines, plain or gzipped. The format is told from the content.
//
// The fields of an operation map are those of Jepsen (jepsen.history):
//
//	:process  a number for a client; :nemesis and its like are skipped
//	:type     :invoke, :ok, :fail or :info
//	:f        what was asked for, such as :acquire
//	:value    argument or result
//	:time     nanoseconds; :index; :error; everything else is ignored
//
// Events are in the order of the file, which is the real-time order of Jepsen's
// single recorder; :time and :index do not change it.
package jepsen

import (
	"fmt"

	"lockstress/history"
)

// Event is one operation map of a client.
type Event struct {
	// Position counts the operation maps of the file from 0, those that are
	// skipped included. It equals Index in a file as Jepsen writes it.
	Position int
	Line     int // of the file, from 1, on which the map begins
	Index    int64
	Process  int64
	Type     history.Type // Invoke, OK, Fail or Info
	F        string       // without the colon of a keyword
	// Key is the key of an independent tuple as EDN text, "" without tuples.
	Key   string
	Value Value
	Time  int64 // nanoseconds
	Timed bool  // Time is meant
	Error string
}

// Value is what EDN and JSON have in common: nil, bool, int64, float64, string, []Value
// or map[string]Value. A keyword is a string with its colon, except as the key of a
// map, where it has none. Tags are taken off.
type Value = any

// Operation is an invocation and what became of it.
type Operation struct {
	Process int64
	F       string
	Key     string
	// First and Last are indices into the events; Last is −1 if there is no
	// completion.
	First, Last int
	// Outcome is OK, Fail or Info; Info too if there is no completion.
	Outcome history.Type
	Input   Value // of the invocation
	Output  Value // of the completion
	Error   string
}

// History is what was read.
type History struct {
	Format  string // "EDN", "JSON" or "JSON lines", with ", gzip" behind it
	Events  []Event
	Total   int            // operation maps in the file
	Skipped map[string]int // maps of processes that are no clients, by process
}

// Operations matches invocations with completions, in the order of the invocations. The
// error names the line of what does not match.
func (h *History) Operations() ([]Operation, error) {
	var ops []Operation
	open := map[int64]int{}
	for i := range h.Events {
		e := &h.Events[i]
		at, busy := open[e.Process]
		if e.Type == history.Invoke {
			if busy {
				return nil, fmt.Errorf("line %d, operation %d: process %d invokes %s while its %s of line %d is open", e.Line, e.Position, e.Process, e.F, ops[at].F, h.Events[ops[at].First].Line)
			}
			open[e.Process] = len(ops)
			ops = append(ops, Operation{
				Process: e.Process, F: e.F, Key: e.Key, First: i, Last: -1,
				Outcome: history.Info, Input: e.Value,
			})
			continue
		}
		if !busy {
			return nil, fmt.Errorf("line %d, operation %d: process %d completes a %s that it did not invoke", e.Line, e.Position, e.Process, e.F)
		}
		o := &ops[at]
		if o.F != e.F {
			return nil, fmt.Errorf("line %d, operation %d: process %d completes a %s, but the open operation, line %d, is a %s", e.Line, e.Position, e.Process, e.F, h.Events[o.First].Line, o.F)
		}
		if o.Key != e.Key {
			return nil, fmt.Errorf("line %d, operation %d: process %d completes a %s of key %s, but the open operation, line %d, is of key %s", e.Line, e.Position, e.Process, e.F, e.Key, h.Events[o.First].Line, o.Key)
		}
		delete(open, e.Process)
		o.Last, o.Outcome, o.Output, o.Error = i, e.Type, e.Value, e.Error
	}
	return ops, nil
}
