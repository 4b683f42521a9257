package reports

import (
	"maps"
	"slices"

	"lockstress/results"
)

// cellDetails is the fold-out part of the page about one cell.
type cellDetails struct {
	Anchor   string
	Title    string
	Class    string
	Clauses  []pageClause
	Facts    []term
	Skipped  string
	Timeline *picture
	Trials   []trialDetails
}

type trialDetails struct {
	N          int
	Seed       int64
	Took       string
	State      string // what came of it in words
	Class      string
	Sign       string
	Why        string // error, or why it tested nothing
	Evidence   []string
	Operations string
	Properties []propertyDetails
	History    string // link, "" if there is none
	Repro      string
	Check      string
}

type propertyDetails struct {
	Name, Class, Sign, Verdict, Reason string
	Figures                            []term
	Counterexample, Picture            string // links
}

func newCellDetails(run *results.Run, i int, timelines map[int]picture) cellDetails {
	c := &run.Cells[i]
	o := judge(c)
	var unnumbered footnotes
	d := cellDetails{
		Anchor: anchor(run, i), Class: stateClass[o.State], Clauses: pageClauses(o, &unnumbered), Skipped: sentence(c.Skipped),
		Title: rowOf(c).Label() + " under " + c.Scenario,
	}
	for k := range d.Clauses {
		d.Clauses[k].Note = 0 // the footnotes belong to the matrix; here the reasons stand beside
	}
	if c.Workload != "" {
		d.Title += ", workload " + c.Workload
	}
	for _, f := range []term{
		{"lock", c.Lock}, {"family", c.Family}, {"guard", c.Guard}, {"scenario", c.Scenario}, {"workload", c.Workload}, {"topology", c.Topology},
	} {
		if f.Text != "" {
			d.Facts = append(d.Facts, f)
		}
	}
	if pic, ok := timelines[i]; ok {
		d.Timeline = &pic
	}
	for k := range c.Trials {
		d.Trials = append(d.Trials, newTrialDetails(c, &c.Trials[k]))
	}
	return d
}

func newTrialDetails(c *results.Cell, t *results.Trial) trialDetails {
	// A trial alone is judged like a cell that has no other.
	alone := *c
	alone.Trials = []results.Trial{*t}
	s := judge(&alone).State
	d := trialDetails{
		N: t.N, Seed: t.Seed, Took: Duration(float64(t.Took)), State: s.word(), Class: stateClass[s], Sign: string(stateSign[s]),
		Evidence: t.Evidence, Operations: operations(t), History: link(t.History), Repro: reproCommand(c, t), Check: checkCommand(t),
	}
	switch {
	case t.Error != "":
		d.Why = sentence("Failed to run: " + t.Error)
	case !t.Exercised && t.Why != "":
		d.Why = sentence("Not exercised: " + t.Why)
	case !t.Exercised:
		d.Why = "Not exercised; no reason was recorded."
	}
	if t.Error != "" {
		return d
	}
	for _, p := range t.Properties {
		d.Properties = append(d.Properties, newPropertyDetails(t, p))
	}
	return d
}

func newPropertyDetails(t *results.Trial, p results.Property) propertyDetails {
	d := propertyDetails{
		Name: p.Name, Verdict: string(p.Verdict), Reason: sentence(p.Reason),
		Counterexample: link(p.Counterexample), Picture: link(p.Picture),
	}
	m := markUnknown
	switch p.Verdict {
	case results.Holds:
		m = markHolds
	case results.Violated:
		m = markBroken
	case results.NotApplicable:
		m = markNothing
	}
	if !t.Exercised && m == markHolds {
		// What held where nothing was tested is no pass.
		m, d.Verdict = markIdle, "not exercised"
	}
	d.Class, d.Sign = markClass[m], string(m)
	for _, name := range slices.Sorted(maps.Keys(p.Figures)) {
		label, value := Figure(name, p.Figures[name])
		d.Figures = append(d.Figures, term{label, value})
	}
	return d
}
