package reports

import (
	"slices"
	"strconv"
	"strings"

	"lockstress/results"
)

// matrix lays the cells of a run out by lock and scenario, both in the order in
// which the run has them.
type matrix struct {
	Scenarios []string
	Rows      []row
}

// row is one lock with one guard. A lock that met the same scenario with several
// workloads has a row for each.
type row struct {
	Lock, Guard string
	// Variant tells rows of the same lock and guard apart, "" where nothing does.
	Variant string
	// Cells by scenario, as indices into Run.Cells; -1 where the run has none.
	Cells []int
}

// Label is what a row is called: "token", "fenced + fenced guard", "token (wallet)".
func (r row) Label() string {
	label := r.Lock
	if guarded(r.Guard) {
		label += " + " + r.Guard + " guard"
	}
	if r.Variant != "" {
		label += " (" + r.Variant + ")"
	}
	return label
}

func guarded(guard string) bool { return guard != "" && guard != "none" }

func newMatrix(run *results.Run) matrix {
	var m matrix
	for i := range run.Cells {
		if s := run.Cells[i].Scenario; !slices.Contains(m.Scenarios, s) {
			m.Scenarios = append(m.Scenarios, s)
		}
	}
	split := splits(run)
	for i := range run.Cells {
		c := &run.Cells[i]
		variant := ""
		if s := split[lockGuard{c.Lock, c.Guard}]; slices.Contains(s, c.Workload) && s[0] != c.Workload {
			variant = c.Workload
		}
		m.place(c, i, variant)
	}
	m.nameFirst(run, split)
	return m
}

type lockGuard struct{ lock, guard string }

// splits finds the workloads that share a scenario with another workload of the same
// lock and guard, in the order of the run.
func splits(run *results.Run) map[lockGuard][]string {
	type slot struct {
		lockGuard
		scenario string
	}
	seen := map[slot][]string{}
	split := map[lockGuard][]string{}
	for i := range run.Cells {
		c := &run.Cells[i]
		s := slot{lockGuard{c.Lock, c.Guard}, c.Scenario}
		if !slices.Contains(seen[s], c.Workload) {
			seen[s] = append(seen[s], c.Workload)
		}
		if len(seen[s]) > 1 {
			for _, w := range seen[s] {
				if !slices.Contains(split[s.lockGuard], w) {
					split[s.lockGuard] = append(split[s.lockGuard], w)
				}
			}
		}
	}
	return split
}

// place puts a cell into the row it belongs to. Two cells that differ in nothing the
// matrix knows get rows of their own, told apart by topology and number: no result
// is ever dropped.
func (m *matrix) place(c *results.Cell, i int, variant string) {
	at := slices.Index(m.Scenarios, c.Scenario)
	name := variant
	for n := 2; ; n++ {
		r := m.row(c.Lock, c.Guard, name)
		if r.Cells[at] < 0 {
			r.Cells[at] = i
			return
		}
		name = strings.TrimSpace(variant + " " + c.Topology + " #" + strconv.Itoa(n))
	}
}

// row finds or makes a row; a new one goes below the others of its lock.
func (m *matrix) row(lock, guard, variant string) *row {
	at := len(m.Rows)
	for k := range m.Rows {
		r := &m.Rows[k]
		if r.Lock == lock && r.Guard == guard && r.Variant == variant {
			return r
		}
		if r.Lock == lock {
			at = k + 1
		}
	}
	m.Rows = slices.Insert(m.Rows, at, row{lock, guard, variant, slices.Repeat([]int{-1}, len(m.Scenarios))})
	return &m.Rows[at]
}

// nameFirst gives the first row of a split lock the name of its workload, if it is
// that of all its cells.
func (m *matrix) nameFirst(run *results.Run, split map[lockGuard][]string) {
	for k := range m.Rows {
		r := &m.Rows[k]
		s := split[lockGuard{r.Lock, r.Guard}]
		if r.Variant != "" || len(s) == 0 {
			continue
		}
		if !slices.ContainsFunc(r.Cells, func(i int) bool { return i >= 0 && run.Cells[i].Workload != s[0] }) {
			r.Variant = s[0]
		}
	}
}
