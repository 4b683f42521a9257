package reports

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lockstress/results"
)

// runCommand is what to type to repeat the run, its seed included.
func runCommand(run *results.Run) string {
	if len(run.Command) == 0 {
		return ""
	}
	args := slices.Clone(run.Command)
	if !slices.ContainsFunc(args, func(a string) bool { return a == "--seed" || strings.HasPrefix(a, "--seed=") }) {
		args = append(args, "--seed", strconv.FormatInt(run.Seed, 10))
	}
	return shell(args)
}

// reproCommand repeats one trial.
func reproCommand(c *results.Cell, t *results.Trial) string {
	args := []string{"stress", "repro", c.Scenario, "--lock", c.Lock}
	if guarded(c.Guard) {
		args = append(args, "--guard", c.Guard)
	}
	if c.Workload != "" && c.Workload != "stock" {
		args = append(args, "--workload", c.Workload)
	}
	return shell(append(args, "--seed", strconv.FormatInt(t.Seed, 10)))
}

// checkCommand judges the history of a trial again, from the file alone.
func checkCommand(t *results.Trial) string {
	if t.History == "" {
		return ""
	}
	return shell([]string{"stress", "check", t.History})
}

// shell quotes arguments for a POSIX shell where they need it.
func shell(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = a
		plain := func(r rune) bool {
			return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+@%", r)
		}
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !plain(r) }) {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// link turns a path relative to results.json into a URL relative to the page, with
// whatever a file name may contain escaped.
func link(path string) string {
	if path == "" {
		return ""
	}
	return (&url.URL{Path: path}).String()
}

func versions(run *results.Run) []term {
	var all []term
	for _, name := range slices.Sorted(maps.Keys(run.Versions)) {
		all = append(all, term{name, run.Versions[name]})
	}
	return all
}

// operations lists the outcomes of a trial's operations: "24 ok, 3 fail, 1 info".
func operations(t *results.Trial) string {
	names := slices.Sorted(maps.Keys(t.Operations))
	slices.SortStableFunc(names, func(a, b string) int {
		order := []string{"ok", "fail", "info"}
		rank := func(s string) int {
			if i := slices.Index(order, s); i >= 0 {
				return i
			}
			return len(order)
		}
		return rank(a) - rank(b)
	})
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s %s", thousands(int64(t.Operations[n])), n))
	}
	return strings.Join(parts, ", ")
}
