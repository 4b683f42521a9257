package reports

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"time"

	"lockstress/results"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// Page writes the report of a run: one HTML file that can be read without network
// and without any other file. Pictures are taken in from the SVG files of plots, see
// [Plots]. Links to histories and counterexamples are relative to results.json, so
// the page belongs beside it.
func Page(w io.Writer, run *results.Run, plots []Plot) error {
	p, err := newPage(run, plots)
	if err != nil {
		return err
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// page is what the template shows, in the order in which it does.
type page struct {
	Style       template.CSS
	Title       string
	About       string
	Interrupted string // "" for a complete run
	Totals      []total
	Matrix      pageMatrix
	Examples    []picture
	Verdicts    []term
	Properties  []term
	Tables      []propertyTable
	Pictures    []picture
	Absent      []string
	Latencies   []latencyLine
	Cells       []cellDetails
	Facts       []term
	Command     string
	Versions    []term
	Limits      []string
}

// term is a name and what there is to say about it.
type term struct{ Name, Text string }

// total counts the cells in one state.
type total struct {
	Class, Sign, Word string
	Cells             string
}

type picture struct {
	Title, Caption string
	Image          template.URL // data: URL
}

// classes of the states and signs in the style sheet.
var stateClass = map[state]string{
	leaseBroken: "lease", mutexBroken: "mutex", otherBroken: "other", undecided: "unknown", idle: "idle",
	failed: "failed", holds: "holds", nothingApplies: "none", skipped: "none", absent: "absent",
}

var stateSign = map[state]mark{
	leaseBroken: markBroken, mutexBroken: markBroken, otherBroken: markBroken, undecided: markUnknown, idle: markIdle,
	failed: markFailed, holds: markHolds, nothingApplies: markNothing, skipped: markNothing,
}

var verdictTerms = []term{
	{"✓ holds", "Every property that applies to the cell held in every trial that tested it. Not a proof: see the limits below."},
	{"✗ lease broken", "The lock itself was wrong: it granted what was still another client's. No care taken by its users helps against that."},
	{"✗ mutex broken", "Two clients believed at once that they held the lock. If the lease was kept, the lock did what a lease promises, and its users believed more than that."},
	{"✗ broken", "Some other property was violated; the cell says which."},
	{"? unknown", "The judge could not decide in the time it had. This is not a pass."},
	{"○ not exercised", "The fault never bit, or no operation succeeded, so the trial tested nothing. This is not a pass either."},
	{"! failed", "The trial could not be run to its end and has no verdict."},
	{"– not applicable", "The property says nothing about this cell (fencing for a lock without tokens, say), or the cell was not run, for the reason given."},
}

var propertyTerms = []term{
	{"lease", "Was the lock granted only when it was free, or when the time of the last holder was up?"},
	{"mutex", "Was there never more than one client that believed it held the lock?"},
	{"resource", "Does the history of what the lock protects (a stock, a wallet) have an order in which every step is right? If not: how many units were sold that did not exist, how many updates were lost?"},
	{"honesty", "Did acquire, extend and release tell their callers the truth about who owned the lock?"},
	{"fencing", "Did the fencing tokens grow with every grant?"},
	{"notice", "Once a holder had lost the lock, for how long did it go on believing?"},
	{"orphan", "For how long was the lock taken with nobody alive behind it?"},
	{"progress", "How long did it take to get a lock that was free, and was anybody starved?"},
}

func newPage(run *results.Run, plots []Plot) (*page, error) {
	m := newMatrix(run)
	p := &page{
		Style:      template.CSS(pageStyle),
		Title:      "Redis locks under faults",
		About:      about(run),
		Totals:     totals(run),
		Matrix:     newPageMatrix(run, m),
		Verdicts:   verdictTerms,
		Properties: propertyTerms,
		Tables:     propertyTables(run, m),
		Latencies:  latencyLines(run),
		Facts:      facts(run),
		Command:    runCommand(run),
		Versions:   versions(run),
		Limits:     limits(run),
	}
	if !run.Complete {
		p.Interrupted = interrupted
	}
	timelines := map[int]picture{}
	for _, plot := range plots {
		if plot.Absent != "" {
			p.Absent = append(p.Absent, plot.Title+": "+plot.Absent)
			continue
		}
		pic, err := newPicture(plot)
		if err != nil {
			return nil, err
		}
		if plot.Kind == Timeline {
			timelines[plot.Cell] = pic
		} else {
			p.Pictures = append(p.Pictures, pic)
		}
	}
	p.Examples = examples(run, timelines)
	for i := range run.Cells {
		p.Cells = append(p.Cells, newCellDetails(run, i, timelines))
	}
	return p, nil
}

func newPicture(plot Plot) (picture, error) {
	svg, err := os.ReadFile(plot.SVG)
	if err != nil {
		return picture{}, fmt.Errorf("taking the plot %q into the report: %w", plot.Title, err)
	}
	return picture{
		Title: plot.Title, Caption: plot.Caption,
		Image: template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg)),
	}, nil
}

// examples are the first timelines of the two kinds of failure that matter most to
// tell apart: a mutex broken by a lock that kept its lease, and a broken lease.
func examples(run *results.Run, timelines map[int]picture) []picture {
	var all []picture
	for _, s := range []state{mutexBroken, leaseBroken} {
		for i := range run.Cells {
			if pic, ok := timelines[i]; ok && judge(&run.Cells[i]).State == s {
				all = append(all, pic)
				break
			}
		}
	}
	return all
}

// totals counts the cells by state, worst first.
func totals(run *results.Run) []total {
	n := map[state]int{}
	for i := range run.Cells {
		n[judge(&run.Cells[i]).State]++
	}
	var all []total
	for s := leaseBroken; s < absent; s++ {
		if n[s] > 0 {
			all = append(all, total{stateClass[s], string(stateSign[s]), s.word(), plural(n[s], "cell", "cells")})
		}
	}
	return all
}

func facts(run *results.Run) []term {
	trials := 0
	for i := range run.Cells {
		trials += len(run.Cells[i].Trials)
	}
	m := run.Machine
	machine := m.OS + "/" + m.Arch
	if m.CPU != "" {
		machine += ", " + m.CPU
	}
	machine += ", " + plural(m.Cores, "core", "cores")
	if m.Memory > 0 {
		machine += fmt.Sprintf(", %s GiB of memory", digits(float64(m.Memory)/(1<<30)))
	}
	return []term{
		{"Started", run.Started.UTC().Format("2006-01-02 15:04:05 UTC")},
		{"Finished", fmt.Sprintf("%s, after %s", run.Finished.UTC().Format("2006-01-02 15:04:05 UTC"),
			Duration(float64(run.Finished.Sub(run.Started).Round(time.Millisecond))))},
		{"Cells and trials", fmt.Sprintf("%s, %s", plural(len(run.Cells), "cell", "cells"), plural(trials, "trial", "trials"))},
		{"Seed", fmt.Sprint(run.Seed)},
		{"TTL of the locks", Duration(float64(run.TTL))},
		{"Machine", machine},
	}
}

// limits says what the numbers of a run can not tell.
func limits(run *results.Run) []string {
	var all []string
	fewest := 0
	for i := range run.Cells {
		if o := judge(&run.Cells[i]); o.State == holds {
			if n := tally(&run.Cells[i]).Tested; fewest == 0 || n < fewest {
				fewest = n
			}
		}
	}
	if fewest > 0 {
		// The rate p at which n trials all hold with a chance of 5 %: (1−p)ⁿ = 0.05.
		p := 1 - math.Pow(0.05, 1/float64(fewest))
		all = append(all, fmt.Sprintf("“Holds” speaks of the trials run. The fewest behind such a verdict here are n = %d: a failure that strikes "+
			"%.0f %% of such trials would still have gone unseen one time in twenty.", fewest, 100*p))
	}
	return append(all,
		"A violation needs no statistics: one is enough, and its history is kept as evidence. “Violated” is certain, “holds” is not.",
		fmt.Sprintf("Everything ran on one machine (%s), over the loopback interface. Durations compare the locks of this run with each other; "+
			"they say little about another machine or a real network.", plural(run.Machine.Cores, "core", "cores")),
		"The scenarios are chosen to bring a failure about. How often one strikes in production they do not say.",
		"Latencies of cells with a fault include the fault, and the proxies that inject it.",
	)
}
