package checker

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
)

// picture returns a function that draws a cut as Porcupine sees it, with the cut's
// notes beside it. Only ever of a cut: a picture of thousands of operations is
// gigabytes of HTML.
func picture(cut *history.History, m porcupine.Model, translate func(*view) []porcupine.Operation) func(io.Writer) error {
	return func(w io.Writer) error {
		v, err := newView(cut)
		if err != nil {
			return fmt.Errorf("drawing the counterexample: %w", err)
		}
		ops := translate(v)
		rows(ops)
		result, info := porcupine.CheckOperationsVerbose(m, ops, time.Minute)
		if result != porcupine.Illegal {
			return fmt.Errorf("drawing the counterexample: the search says %v of it, not %v", result, porcupine.Illegal)
		}
		info.AddAnnotations(v.annotations())
		return porcupine.Visualize(m, info, w)
	}
}

// rows numbers the processes from 0, and gives operations that have no end, which
// would hide what their process does later, rows of their own below.
func rows(ops []porcupine.Operation) {
	var processes []int
	for _, op := range ops {
		processes = append(processes, op.ClientId)
	}
	slices.Sort(processes)
	processes = slices.Compact(processes)
	next := len(processes)
	for i := range ops {
		if ops[i].Return == history.Never {
			ops[i].ClientId = next
			next++
			continue
		}
		ops[i].ClientId, _ = slices.BinarySearch(processes, ops[i].ClientId)
	}
}

func (v *view) annotations() []porcupine.Annotation {
	var all []porcupine.Annotation
	for _, s := range v.drawnSpans() {
		all = append(all, porcupine.Annotation{
			Tag: "faults", Start: s.From, End: s.To, Description: strings.TrimSpace(s.Node + " " + s.Text), BackgroundColor: "#f8d7da",
		})
	}
	for _, e := range v.notes {
		a := porcupine.Annotation{Start: e.Time, End: e.Time}
		switch e.Op {
		case history.Exec:
			a.Tag = strings.TrimSpace("server " + e.Node)
			a.Description = fmt.Sprintf("%s hold %d", e.Effect, e.Hold)
			a.Details = e.Text
		case history.Sync:
			a.Tag, a.Description = "steps", e.Text
			if e.Process >= 0 {
				a.Description = fmt.Sprintf("client %d: %s", v.client(e.Process), e.Text)
			}
		case history.Lost:
			a.Tag, a.Description = "steps", fmt.Sprintf("hold %d lost", e.Hold)
		case history.Dead:
			a.Tag, a.Description = "steps", fmt.Sprintf("client %d killed", v.client(e.Process))
		default:
			continue
		}
		all = append(all, a)
	}
	return all
}
