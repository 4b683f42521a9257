package main

import (
	"fmt"
	"io"
	"time"

	"lockstress/checker"
	"lockstress/checker/models"
	"lockstress/checker/monitor"
	"lockstress/history"
	"lockstress/history/jepsen"
	"lockstress/results"
)

// explainForeign says in plain words what the verdict on another tool's history rests on.
func explainForeign(w io.Writer, h *jepsen.History, m *models.Model, v *models.Verdict) {
	fmt.Fprintf(w, `What was checked
  Whether there is a moment for every operation, between its invocation and its
  completion, so that the operations in the order of these moments obey the model (the
  history is linearizable): %s.
`, m.Specification)
	if v.Keys > 1 {
		fmt.Fprintf(w, "  Each of the %d keys was judged by itself: they are different objects.\n", v.Keys)
	}
	switch {
	case v.Engine == models.Monitor && v.Result == monitor.Unknown:
		fmt.Fprintln(w, "  The monitor, which sweeps through the history once, could not tell.")
	case v.Engine == models.Monitor:
		fmt.Fprintln(w, "  A monitor decided, which sweeps through the history once and is exact for it.")
	case v.Result == monitor.Unknown:
		fmt.Fprintln(w, "  A search (Porcupine) looked for such an order and did not come to an end.")
	default:
		fmt.Fprintln(w, "  A search (Porcupine) looked for such an order, through all that there are if need be.")
	}
	var ok, fail, unknown int
	for _, c := range v.Counts {
		ok += c.OK
		fail += c.Fail
		unknown += c.Info + c.Open
	}
	fmt.Fprintf(w, `
How operations ended
  %d ok, %d failed, %d unknown. An operation that was still open at the end counts as
  unknown.

What was assumed
  The whole file was read: %d events. An event was written no later than the answer was
  acted upon, and no earlier than the request was sent; processes do one thing at a time.
  The rules above are the rest of it: with others the verdict may be another.
`, ok, fail, unknown, h.Total)
	if v.Result == monitor.Unknown {
		fmt.Fprintln(w, "  Unknown is not a pass: a longer --timeout may decide.")
	}
}

// explainJudgement does the same for a history of our own.
func explainJudgement(w io.Writer, h *history.History, r *checker.Report) {
	fmt.Fprintln(w, "\nWhat was checked")
	for _, f := range r.Findings {
		question := ""
		for _, p := range properties {
			if p.Name == f.Name {
				question = p.Summary
			}
		}
		if f.Verdict == results.NotApplicable {
			question = "does not apply to this lock and workload"
		}
		fmt.Fprintf(w, "  %-9s %s\n", f.Name, question)
	}
	fmt.Fprintln(w, "\nHow operations ended")
	counts := map[history.Op]*models.Count{}
	var order []history.Op
	if ops, err := h.Operations(); err == nil {
		for i := range ops {
			op := &ops[i]
			c := counts[op.Op]
			if c == nil {
				c = &models.Count{}
				counts[op.Op] = c
				order = append(order, op.Op)
			}
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
	}
	for _, op := range order {
		fmt.Fprintf(w, "  %-9s %s\n", op, outcomes(*counts[op]))
	}
	fmt.Fprint(w, `
What was assumed
  All times are readings of one clock. Failed means that the operation certainly did not
  happen; unknown, and still open at the end, that it may have happened at any moment
  from its invocation on, or may yet, or never.
`)
	if h.Header.Expires {
		fmt.Fprintf(w, "  A lease lasts for %v, less a margin of %v for clocks that differ, counted from the\n  invocation of its acquire or latest extension.\n",
			time.Duration(h.Header.TTL), time.Duration(h.Header.Margin))
	} else if h.Header.Locks {
		fmt.Fprintln(w, "  A hold never ends by itself.")
	}
	fmt.Fprintln(w, "  A client believes in its lock from the answer to its acquire until it sends the release,\n  is told of the loss, or dies.")
	if h.Header.Workload != "lock" {
		fmt.Fprintf(w, "  The resource began with %d; one operation takes %d.\n", h.Header.Initial, h.Header.Amount)
	}
	if h.Header.Witnessed {
		fmt.Fprintln(w, "  What the servers did is known from a witness, which heard of everything after it was done.")
	} else {
		fmt.Fprintln(w, "  There was no witness of what the servers did: answers alone are judged.")
	}
	if !r.Exercised {
		fmt.Fprintf(w, "  The trial tested nothing: %s.\n", r.Why)
	}
}
