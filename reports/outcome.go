package reports

import (
	"fmt"
	"slices"
	"strings"

	"lockstress/results"
)

// mark is the sign that opens each line of a cell.
type mark rune

const (
	markHolds    mark = '✓'
	markBroken   mark = '✗'
	markUnknown  mark = '?'
	markIdle     mark = '○' // the fault never bit, or nothing succeeded
	markFailed   mark = '!'
	markNothing  mark = '–' // not run, or nothing applies
	noFootnote        = ""
	notRunInTime      = "the run ended before this cell was reached"
)

// state is the verdict on a cell as a whole, worst first.
type state int

const (
	// leaseBroken: the lock itself granted what was still another's.
	leaseBroken state = iota
	// mutexBroken: the lease was kept, and yet two held the lock at once.
	mutexBroken
	// otherBroken: some other property was violated.
	otherBroken
	undecided
	idle
	failed
	holds
	nothingApplies
	skipped
	absent // the run has no such cell
)

// word is the state in one or two words.
func (s state) word() string {
	return [...]string{
		"lease broken", "mutex broken", "broken", "unknown", "not exercised",
		"failed to run", "holds", "nothing applies", "skipped", "no such cell",
	}[s]
}

// clause is one line of a cell: "✗ stock 20/20 (20 oversold)".
type clause struct {
	Mark   mark
	Name   string // of the property as shown, "stock"; "" where the line is not about one
	Text   string // "stock 20/20"
	Detail string // "20 oversold", or ""
	Note   string // text of its footnote, or noFootnote
	// Grave marks a broken lease, to tell it from what else may break.
	Grave bool
}

// outcome is what a cell says at a glance.
type outcome struct {
	State   state
	Clauses []clause
}

// judge sums up a cell; nil is a cell that the run does not have.
func judge(c *results.Cell) outcome {
	switch {
	case c == nil:
		return outcome{State: absent}
	case c.Skipped != "":
		return outcome{skipped, []clause{{Mark: markNothing, Text: "skipped", Note: c.Skipped}}}
	case len(c.Trials) == 0:
		return outcome{skipped, []clause{{Mark: markNothing, Text: "not run", Note: notRunInTime}}}
	}
	var o outcome
	o.State, o.Clauses = verdicts(c)
	t := tally(c)
	n := len(c.Trials)
	if t.Idle > 0 {
		o.Clauses = append(o.Clauses, clause{Mark: markIdle, Text: fmt.Sprintf("not exercised %d/%d", t.Idle, n), Note: t.Why})
	}
	if t.Failed > 0 {
		o.Clauses = append(o.Clauses, clause{Mark: markFailed, Text: fmt.Sprintf("failed %d/%d", t.Failed, n), Note: t.Error})
	}
	if o.State == nothingApplies {
		switch {
		case t.Failed > 0:
			o.State = failed
		case t.Idle > 0:
			o.State = idle
		default:
			o.Clauses = append(o.Clauses, clause{Mark: markNothing, Text: "nothing applies"})
		}
	}
	return o
}

// verdicts gives the lines on what was violated or undecided, or else the one that
// says what held; nothingApplies without a line if no trial judged anything.
func verdicts(c *results.Cell) (state, []clause) {
	var lines []clause
	state := nothingApplies
	harmed := c.Count("mutex").Violated+c.Count("resource").Violated > 0
	for _, name := range results.Properties {
		n := c.Count(name)
		judged := n.Holds + n.Violated + n.Unknown
		shown := propertyWord(c, name)
		if n.Violated > 0 {
			lines = append(lines, clause{
				Mark: markBroken, Name: shown, Text: fmt.Sprintf("%s %d/%d", shown, n.Violated, judged),
				Detail: damage(c, name), Grave: name == "lease",
			})
			state = min(state, brokenState(name))
		}
		if n.Unknown > 0 {
			lines = append(lines, clause{
				Mark: markUnknown, Text: fmt.Sprintf("%s unknown %d/%d", shown, n.Unknown, judged),
				Note: reason(c, name, results.Unknown),
			})
			state = min(state, undecided)
		}
		// What held is named only where it tells kinds of damage apart: a lease kept
		// though the mutex broke, a stock saved by its guard.
		tells := name == "lease" || name == "mutex" || name == "resource"
		if harmed && tells && n.Holds > 0 && n.Holds == judged {
			lines = append(lines, clause{Mark: markHolds, Text: fmt.Sprintf("%s %d/%d", shown, n.Holds, judged)})
		}
	}
	if len(lines) > 0 {
		return state, lines
	}
	if tested := tally(c).Tested; tested > 0 {
		return holds, []clause{{Mark: markHolds, Text: fmt.Sprintf("holds %d/%d", tested, tested)}}
	}
	return nothingApplies, nil
}

func brokenState(property string) state {
	switch property {
	case "lease":
		return leaseBroken
	case "mutex":
		return mutexBroken
	}
	return otherBroken
}

// propertyWord names a property as it is shown; the resource goes by what it is.
func propertyWord(c *results.Cell, property string) string {
	if property == "resource" && (c.Workload == "stock" || c.Workload == "wallet") {
		return c.Workload
	}
	return property
}

// damage says what the violations of a property cost over all trials, "" if it has
// no figure for it.
func damage(c *results.Cell, property string) string {
	if property != "resource" {
		return ""
	}
	var parts []string
	if v := c.Sum(property, "oversold_units"); v > 0 {
		parts = append(parts, number(v)+" oversold")
	}
	if v := c.Sum(property, "lost_updates"); v > 0 {
		parts = append(parts, number(v)+" lost")
	}
	return strings.Join(parts, ", ")
}

// counts of the trials of a cell by how far they got.
type counts struct {
	Tested int // exercised, with at least one property judged
	Idle   int // not exercised, and nothing was violated all the same
	Failed int
	// Why and Error give the commonest reason, and how many others there are.
	Why, Error string
}

func tally(c *results.Cell) counts {
	var n counts
	var why, errs []string
	for i := range c.Trials {
		t := &c.Trials[i]
		switch {
		case t.Error != "":
			n.Failed++
			errs = append(errs, t.Error)
		case !t.Exercised && !violates(t):
			n.Idle++
			why = append(why, t.Why)
		case slices.ContainsFunc(t.Properties, func(p results.Property) bool { return p.Verdict != results.NotApplicable }):
			n.Tested++
		}
	}
	n.Why, n.Error = commonest(why), commonest(errs)
	return n
}

func violates(t *results.Trial) bool {
	return slices.ContainsFunc(t.Properties, func(p results.Property) bool { return p.Verdict == results.Violated })
}

// reason gives the commonest reason for a verdict on a property.
func reason(c *results.Cell, property string, v results.Verdict) string {
	var all []string
	for i := range c.Trials {
		if p, ok := c.Trials[i].Property(property); ok && p.Verdict == v && c.Trials[i].Error == "" {
			all = append(all, p.Reason)
		}
	}
	return commonest(all)
}

// commonest returns the most frequent text, the earliest of equals, and says how many
// others there were.
func commonest(all []string) string {
	times := map[string]int{}
	best := ""
	for _, s := range all {
		if s != "" {
			times[s]++
		}
	}
	for _, s := range all {
		if times[s] > times[best] {
			best = s
		}
	}
	if others := len(times) - 1; others > 0 {
		return fmt.Sprintf("%s (and %s)", best, plural(others, "other reason", "other reasons"))
	}
	return best
}

// footnotes numbers the notes of a table from 1, equal ones only once.
type footnotes struct{ texts []string }

func (f *footnotes) number(text string) int {
	if text == noFootnote {
		return 0
	}
	if i := slices.Index(f.texts, text); i >= 0 {
		return i + 1
	}
	f.texts = append(f.texts, text)
	return len(f.texts)
}

// cellAt returns the cell that an index of a row stands for, nil for -1.
func cellAt(run *results.Run, i int) *results.Cell {
	if i < 0 {
		return nil
	}
	return &run.Cells[i]
}

// about says in one line what was run: n, seed, TTL and the servers' version.
func about(run *results.Run) string {
	parts := []string{trialsEach(run), fmt.Sprintf("seed %d", run.Seed), "TTL " + Duration(float64(run.TTL))}
	if v := run.Versions["redis"]; v != "" {
		parts = append(parts, "Redis "+v)
	}
	if run.Machine.Cores > 0 {
		parts = append(parts, plural(run.Machine.Cores, "core", "cores"))
	}
	return strings.Join(parts, " · ")
}

// trialsEach says how many trials the cells that were run have: "20 trials per cell".
func trialsEach(run *results.Run) string {
	var all []int
	for i := range run.Cells {
		if n := len(run.Cells[i].Trials); n > 0 {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return "no trials"
	}
	if least, most := slices.Min(all), slices.Max(all); least != most {
		return fmt.Sprintf("%d to %d trials per cell", least, most)
	}
	return plural(all[0], "trial per cell", "trials per cell")
}

// interrupted is said wherever an incomplete run is shown.
const interrupted = "This run was interrupted: what follows is what it had done by then."

// Legend of the marks and of k/n, one line each.
var legend = []string{
	"✓ held in every trial that tested it   ✗ broken   ? the judge could not tell in time: not a pass",
	"○ not exercised, the fault never bit: not a pass   ! the trial failed to run   – not run or nothing to judge   blank: no such cell",
	"k/n: k of the n trials in which the property was judged. oversold, lost: units sold beyond the stock, updates lost, all trials together.",
	"lease: granted only when free or when the last holder's time was up. mutex: never two holders at once. A lock can keep its " +
		"lease and still break mutex: a holder that was stopped goes on when its time is over. Broken lease: the lock itself was wrong.",
}
