package reports

import (
	"fmt"
	"strings"

	"lockstress/results"
)

// pageMatrix is the verdict matrix of the page.
type pageMatrix struct {
	Scenarios []string
	Rows      []pageRow
	Notes     []string // footnotes, numbered from 1
}

type pageRow struct {
	Label, Family string
	Cells         []pageCell
}

type pageCell struct {
	Class   string
	Badge   string // the kind of failure in words, "" where nothing broke
	Anchor  string // of its details, "" if there are none
	Clauses []pageClause
}

type pageClause struct {
	Class, Sign, Text, Detail string
	Note                      int // number of its footnote, 0 for none
}

func newPageMatrix(run *results.Run, m matrix) pageMatrix {
	out := pageMatrix{Scenarios: m.Scenarios}
	var notes footnotes
	for _, r := range m.Rows {
		line := pageRow{Label: r.Label()}
		for _, i := range r.Cells {
			o := judge(cellAt(run, i))
			cell := pageCell{Class: stateClass[o.State], Clauses: pageClauses(o, &notes)}
			cell.Badge = badge(o)
			if i >= 0 {
				cell.Anchor = anchor(run, i)
				line.Family = run.Cells[i].Family
			}
			line.Cells = append(line.Cells, cell)
		}
		out.Rows = append(out.Rows, line)
	}
	out.Notes = notes.texts
	return out
}

// badge names the gravest thing that broke.
func badge(o outcome) string {
	switch o.State {
	case leaseBroken, mutexBroken:
		return o.State.word()
	case otherBroken:
		var names []string
		for _, c := range o.Clauses {
			if c.Mark == markBroken {
				names = append(names, c.Name)
			}
		}
		if len(names) == 1 {
			return names[0] + " broken"
		}
		return fmt.Sprintf("%d properties broken", len(names))
	}
	return ""
}

var markClass = map[mark]string{
	markHolds: "s-holds", markBroken: "s-broken", markUnknown: "s-unknown", markIdle: "s-idle", markFailed: "s-failed", markNothing: "s-none",
}

func pageClauses(o outcome, notes *footnotes) []pageClause {
	var all []pageClause
	for _, c := range o.Clauses {
		all = append(all, pageClause{markClass[c.Mark], string(c.Mark), c.Text, c.Detail, notes.number(c.Note)})
	}
	return all
}

// anchor of the details of a cell, unique in the page.
func anchor(run *results.Run, i int) string {
	c := &run.Cells[i]
	return fmt.Sprintf("cell-%d-%s", i+1, fileName(c.Lock, c.Guard, c.Scenario))
}

// propertyTable compares the locks in one scenario, property by property.
type propertyTable struct {
	Scenario   string
	Properties []string
	Rows       []propertyRow
}

type propertyRow struct {
	Label, Anchor string
	Skipped       string // why there are no verdicts, "" if there are
	Cells         []propertyCell
}

type propertyCell struct {
	Class   string
	Clauses []pageClause
	Figures []term
}

func propertyTables(run *results.Run, m matrix) []propertyTable {
	var all []propertyTable
	for s, scenario := range m.Scenarios {
		t := propertyTable{Scenario: scenario, Properties: results.Properties}
		for _, r := range m.Rows {
			i := r.Cells[s]
			if i < 0 {
				continue
			}
			c := &run.Cells[i]
			line := propertyRow{Label: r.Label(), Anchor: anchor(run, i)}
			switch {
			case c.Skipped != "":
				line.Skipped = "Skipped: " + c.Skipped + "."
			case len(c.Trials) == 0:
				line.Skipped = "Not run: " + notRunInTime + "."
			default:
				for _, name := range results.Properties {
					line.Cells = append(line.Cells, newPropertyCell(c, name))
				}
			}
			t.Rows = append(t.Rows, line)
		}
		all = append(all, t)
	}
	return all
}

func newPropertyCell(c *results.Cell, name string) propertyCell {
	n := c.Count(name)
	judged := n.Holds + n.Violated + n.Unknown
	var out propertyCell
	add := func(count int, m mark, class, word string) {
		if count == 0 {
			return
		}
		if out.Class == "" {
			out.Class = class
		}
		of := judged
		if m == markIdle || m == markFailed {
			of = len(c.Trials)
		}
		out.Clauses = append(out.Clauses, pageClause{Class: markClass[m], Sign: string(m), Text: fmt.Sprintf("%s %d/%d", word, count, of)})
	}
	class := stateClass[brokenState(name)]
	add(n.Violated, markBroken, class, "violated")
	add(n.Unknown, markUnknown, "unknown", "unknown")
	add(n.Holds, markHolds, "holds", "holds")
	if judged == 0 && n.NotApplicable > 0 {
		out.Class = "none"
		out.Clauses = append(out.Clauses, pageClause{Class: markClass[markNothing], Sign: string(markNothing), Text: "not applicable"})
		return out
	}
	add(n.NotExercised, markIdle, "idle", "not exercised")
	add(n.Failed, markFailed, "failed", "failed")
	for _, figure := range figureNames(c, name) {
		label, value := overTrials(c, name, figure)
		if label != "" {
			out.Figures = append(out.Figures, term{label, value})
		}
	}
	return out
}

// latencyLine is one operation of one cell in the table of latencies.
type latencyLine struct {
	Lock, Scenario, Op         string
	N, P50, P99, P999, Longest string
}

func latencyLines(run *results.Run) []latencyLine {
	var all []latencyLine
	m := newMatrix(run)
	for s, scenario := range m.Scenarios {
		for _, r := range m.Rows {
			c := cellAt(run, r.Cells[s])
			if c == nil {
				continue
			}
			for _, l := range c.Latency {
				all = append(all, latencyLine{
					r.Label(), scenario, l.Op, thousands(l.Count), percentile(l, l.P50, 1), percentile(l, l.P99, 100),
					percentile(l, l.P999, 1000), percentile(l, l.Max, 1),
				})
			}
		}
	}
	return all
}

// percentile writes a duration, unless too few operations stand behind it.
func percentile(l results.Latency, ns, least int64) string {
	if l.Count < least {
		return "n too small"
	}
	return Duration(float64(ns))
}

// sentence puts a full stop behind a reason that has none.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
