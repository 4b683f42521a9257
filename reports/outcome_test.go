package reports

import (
	"slices"
	"strings"
	"testing"

	"lockstress/results"
)

// verdictTrial is "lease:holds mutex:violated …" as a trial; a leading "idle" or
// "error" says what became of it.
func verdictTrial(s string) results.Trial {
	t := results.Trial{Exercised: true}
	for word := range strings.FieldsSeq(s) {
		name, v, ok := strings.Cut(word, ":")
		switch {
		case ok:
			t.Properties = append(t.Properties, results.Property{Name: name, Verdict: results.Verdict(strings.ReplaceAll(v, "-", " "))})
		case word == "idle":
			t.Exercised, t.Why = false, "nobody held"
		case word == "error":
			t.Error = "no server"
		}
	}
	return t
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		trials []string
		state  state
		lines  string
	}{
		"all hold":               {[]string{"lease:holds mutex:holds", "lease:holds mutex:holds"}, holds, "✓ holds 2/2"},
		"one unknown is no pass": {[]string{"lease:holds mutex:unknown", "lease:holds mutex:holds"}, undecided, "? mutex unknown 1/2"},
		"unfamiliar verdict":     {[]string{"lease:perhaps"}, undecided, "? lease unknown 1/1"},
		"idle is no pass":        {[]string{"idle lease:holds", "idle lease:holds"}, idle, "○ not exercised 2/2"},
		"partly idle":            {[]string{"lease:holds", "idle lease:holds"}, holds, "✓ holds 1/1; ○ not exercised 1/2"},
		"all failed":             {[]string{"error", "error"}, failed, "! failed 2/2"},
		"failed and idle":        {[]string{"error", "idle lease:holds"}, failed, "○ not exercised 1/2; ! failed 1/2"},
		"partly failed":          {[]string{"lease:holds", "error"}, holds, "✓ holds 1/1; ! failed 1/2"},
		"mutex, lease kept":      {[]string{"lease:holds mutex:violated resource:violated"}, mutexBroken, "✓ lease 1/1; ✗ mutex 1/1; ✗ resource 1/1"},
		"guard saved it":         {[]string{"lease:holds mutex:violated resource:holds"}, mutexBroken, "✓ lease 1/1; ✗ mutex 1/1; ✓ resource 1/1"},
		"lease":                  {[]string{"lease:violated mutex:violated", "lease:holds mutex:violated"}, leaseBroken, "✗ lease 1/2; ✗ mutex 2/2"},
		"only an orphan":         {[]string{"lease:holds mutex:holds orphan:violated"}, otherBroken, "✗ orphan 1/1"},
		"broken though idle":     {[]string{"idle lease:holds mutex:violated", "lease:holds mutex:holds"}, mutexBroken, "✓ lease 1/1; ✗ mutex 1/2"},
		"broken and unknown":     {[]string{"mutex:violated resource:unknown"}, mutexBroken, "✗ mutex 1/1; ? resource unknown 1/1"},
		"nothing applies":        {[]string{"lease:not-applicable"}, nothingApplies, "– nothing applies"},
		"nothing judged":         {[]string{""}, nothingApplies, "– nothing applies"},
		"not run":                {nil, skipped, "– not run"},
	} {
		t.Run(name, func(t *testing.T) {
			var cell results.Cell
			for _, s := range c.trials {
				cell.Trials = append(cell.Trials, verdictTrial(s))
			}
			o := judge(&cell)
			var lines []string
			for _, l := range o.Clauses {
				lines = append(lines, string(l.Mark)+" "+l.Text)
			}
			if got := strings.Join(lines, "; "); o.State != c.state || got != c.lines {
				t.Errorf("got %q: %s; want %q: %s", o.State.word(), got, c.state.word(), c.lines)
			}
		})
	}
}

// No mixture of verdicts with anything but "holds" in an exercised trial may come out
// as a pass.
func TestJudgeNeverPassesWhatDidNotHold(t *testing.T) {
	verdicts := []string{"holds", "violated", "unknown", "not-applicable"}
	for _, prefix := range []string{"", "idle ", "error "} {
		for _, a := range verdicts {
			for _, b := range verdicts {
				one := prefix + "lease:" + a + " progress:" + b
				cell := results.Cell{Trials: []results.Trial{verdictTrial(one), verdictTrial("lease:holds progress:holds")}}
				pass := judge(&cell).State == holds
				bad := prefix != "error " && (a == "violated" || b == "violated") ||
					prefix == "" && (a == "unknown" || b == "unknown")
				if pass == bad {
					t.Errorf("%q beside a trial that holds: pass is %v, want %v", one, pass, !bad)
				}
			}
		}
	}
}

func TestMatrix(t *testing.T) {
	cell := func(lock, guard, scenario, workload string) results.Cell {
		return results.Cell{Lock: lock, Guard: guard, Scenario: scenario, Workload: workload, Topology: "single"}
	}
	run := &results.Run{Cells: []results.Cell{
		cell("zeta", "none", "contention", "stock"),
		cell("alpha", "none", "contention", "stock"),
		cell("zeta", "none", "gc_pause", "lock"),
		cell("zeta", "fenced", "contention", "stock"),
		cell("alpha", "none", "contention", "wallet"),
		cell("alpha", "none", "contention", "wallet"), // twice the same
	}}
	m := newMatrix(run)
	var labels []string
	seen := map[int]bool{}
	for _, r := range m.Rows {
		labels = append(labels, r.Label())
		for _, i := range r.Cells {
			if i >= 0 {
				seen[i] = true
			}
		}
	}
	want := []string{"zeta", "zeta + fenced guard", "alpha (stock)", "alpha (wallet)", "alpha (wallet single #2)"}
	if !slices.Equal(labels, want) {
		t.Errorf("rows %q, want %q", labels, want)
	}
	if len(seen) != len(run.Cells) {
		t.Errorf("the matrix shows %d of %d cells", len(seen), len(run.Cells))
	}
	if !slices.Equal(m.Scenarios, []string{"contention", "gc_pause"}) {
		t.Errorf("scenarios %q", m.Scenarios)
	}
}
