package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockstress/checker/models"
	"lockstress/checker/monitor"
	"lockstress/history"
	"lockstress/history/jepsen"
	"lockstress/results"

	"github.com/spf13/cobra"
)

// foreignFlags are those that say how to read a history of another tool.
type foreignFlags struct {
	model, fail, nilRead, engine, initial string
	unknownErrors                         []string
	permits, depth                        int
	ttl, margin                           time.Duration
	independent                           bool
}

var foreignNames = []string{"model", "fail", "unknown-error", "initial", "nil-read", "permits", "depth", "ttl", "margin", "independent", "engine"}

func (f *foreignFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "for histories of other tools: "+models.Names())
	flags.StringVar(&f.fail, "fail", string(models.Certain), "how :fail is read: certain (it did not happen), unknown (it may have)")
	flags.StringArrayVar(&f.unknownErrors, "unknown-error", nil, "read a :fail as unknown if its :error contains this text (may be repeated)")
	flags.StringVar(&f.initial, "initial", "", "initial value of a register (nil if not given) or counter (0), as EDN")
	flags.StringVar(&f.nilRead, "nil-read", string(models.Anything), "how a read of nil is read: anything (it says nothing), empty (the register held nil)")
	flags.IntVar(&f.permits, "permits", 1, "permits of a semaphore")
	flags.IntVar(&f.depth, "depth", 0, "how often a reentrant mutex may be held at once, 0 for any number")
	flags.DurationVar(&f.ttl, "ttl", 0, "TTL of a lease")
	flags.DurationVar(&f.margin, "margin", 0, "by how much a lease may end too early, for clocks that differ")
	flags.BoolVar(&f.independent, "independent", false, "values are [key value] tuples of independent objects")
	flags.StringVar(&f.engine, "engine", string(models.Auto), "who judges: auto, monitor, search")
}

// given names one of these flags that was set, "" if none was.
func (f *foreignFlags) given(cmd *cobra.Command) string {
	for _, name := range foreignNames {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// check judges a file that is not in our format, as ours says.
func (f *foreignFlags) check(cmd *cobra.Command, path string, ours error, timeout time.Duration, asJSON, explain bool) error {
	h, err := jepsen.Load(path, jepsen.Options{Independent: f.independent})
	switch {
	case errors.Is(err, jepsen.ErrUnknownFormat), errors.Is(err, syscall.EISDIR):
		return exit{exitInput, ours}
	case err != nil:
		return exit{exitInput, fmt.Errorf("%w; read as a history of another tool: %w", ours, err)}
	}
	if f.model == "" {
		hint := ""
		if guess := models.Guess(h); guess != "" {
			hint = fmt.Sprintf("; by its operations it could be --model %s", guess)
		}
		return exit{exitInput, fmt.Errorf("%s is a history of another tool (%s): name its model with --model: %s%s", path, h.Format, models.Names(), hint)}
	}
	m, err := models.ByName(f.model)
	if err != nil {
		return exit{exitInput, err}
	}
	v, err := m.Check(cmd.Context(), h, models.Options{
		Fail: models.FailRule(f.fail), UnknownErrors: f.unknownErrors, Initial: f.initial,
		NilRead: models.NilRule(f.nilRead), Permits: f.permits, Depth: f.depth,
		TTL: f.ttl, Margin: f.margin, Engine: models.Engine(f.engine), Timeout: timeout,
	})
	if err != nil {
		if cmd.Context().Err() != nil {
			return err
		}
		return exit{exitInput, fmt.Errorf("%s: %w", path, err)}
	}
	if asJSON {
		err = writeForeign(cmd.OutOrStdout(), h, &m, v)
	} else {
		err = printForeign(cmd.OutOrStdout(), h, &m, v, explain)
	}
	if err != nil {
		return err
	}
	switch v.Result {
	case monitor.Legal:
		return nil
	case monitor.Illegal:
		return exit{code: exitViolated}
	}
	return exit{code: exitUnknown}
}

var resultVerdicts = map[monitor.Result]results.Verdict{
	monitor.Legal: results.Holds, monitor.Illegal: results.Violated, monitor.Unknown: results.Unknown,
}

// shownSteps is how many operations of a counterexample are printed; --json has all.
const shownSteps = 25

func printForeign(w io.Writer, h *jepsen.History, m *models.Model, v *models.Verdict, explain bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", mark(resultVerdicts[v.Result]), m.Name)
	if v.Reason != "" {
		fmt.Fprintf(&b, ": %s", v.Reason)
	}
	fmt.Fprintf(&b, "\n\n%s, %s\n", h.Format, total(h, v))
	for _, c := range v.Counts {
		fmt.Fprintf(&b, "  %-12s %s\n", c.F, outcomes(c))
	}
	if len(h.Events) == 0 {
		b.WriteString("  No client did anything: there was nothing to judge.\n")
	}
	b.WriteString("\nRead with these rules:\n")
	for _, rule := range v.Rules {
		fmt.Fprintf(&b, "  - %s\n", rule)
	}
	if x := v.Counterexample; x != nil {
		b.WriteByte('\n')
		tellCounterexample(&b, x)
	}
	if explain {
		b.WriteByte('\n')
		explainForeign(&b, h, m, v)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func total(h *jepsen.History, v *models.Verdict) string {
	n := 0
	for _, c := range v.Counts {
		n += c.OK + c.Fail + c.Info + c.Open
	}
	s := fmt.Sprintf("%d events: %d operations", h.Total, n)
	if v.Keys > 1 {
		s += fmt.Sprintf(" on %d keys", v.Keys)
	}
	if skipped := h.Total - len(h.Events); skipped > 0 {
		s += fmt.Sprintf("; %d events of %s skipped", skipped, strings.Join(slices.Sorted(maps.Keys(h.Skipped)), ", "))
	}
	return s
}

func outcomes(c models.Count) string {
	return fmt.Sprintf("%d ok, %d failed, %d unknown, %d still open at the end", c.OK, c.Fail, c.Info, c.Open)
}

func tellCounterexample(w io.Writer, x *models.Counterexample) {
	length := "The shortest illegal beginning of the history ends"
	if !x.Shortest {
		length = "An illegal beginning of the history (a shorter one was not found in time) ends"
	}
	fmt.Fprintf(w, "%s at index %d, line %d, after %d events of clients:\n  process %d: %s of %s %s",
		length, x.Last.Index, x.Last.Line, x.Events, x.Last.Process, x.Last.Type, x.Last.F, jepsen.Text(x.Last.Value))
	if x.Last.Error != "" {
		fmt.Fprintf(w, " (%s)", x.Last.Error)
	}
	fmt.Fprintln(w)
	if len(x.Steps) == 0 {
		return
	}
	if len(x.Steps) > shownSteps {
		fmt.Fprintf(w, "%d operations up to there cannot be reconciled; --json lists them.\n", len(x.Steps))
		return
	}
	fmt.Fprintln(w, "\nThese operations cannot be reconciled:")
	for i, s := range x.Steps {
		fmt.Fprintf(w, "  %d. %s\n", i+1, stepWords(&s))
	}
	if x.Method != "" {
		fmt.Fprintf(w, "To get there, %s.", x.Method)
		if x.Needed {
			fmt.Fprint(w, " No more can be left out so: the rest would be legal.")
		}
		fmt.Fprintln(w)
	}
}

func stepWords(s *models.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "process %d: %s", s.Process, s.F)
	if s.Input != nil {
		fmt.Fprintf(&b, " %s", jepsen.Text(s.Input))
	}
	if s.Key != "" {
		fmt.Fprintf(&b, " on key %s", s.Key)
	}
	switch {
	case s.Returned < 0:
		fmt.Fprintf(&b, ", from %d on: still open, it may have happened or not", s.Invoked)
		return b.String()
	case s.Ignored:
		fmt.Fprintf(&b, ", %d to %d: failed, so it did not happen", s.Invoked, s.Returned)
	case s.Outcome == history.OK:
		fmt.Fprintf(&b, ", %d to %d: ok", s.Invoked, s.Returned)
		if s.Output != nil && jepsen.Text(s.Output) != jepsen.Text(s.Input) {
			fmt.Fprintf(&b, ", %s", jepsen.Text(s.Output))
		}
	default:
		fmt.Fprintf(&b, ", from %d on: unknown, it may have happened or not", s.Invoked)
	}
	if s.Error != "" {
		fmt.Fprintf(&b, " (%s)", s.Error)
	}
	return b.String()
}

func writeForeign(w io.Writer, h *jepsen.History, m *models.Model, v *models.Verdict) error {
	type step struct {
		Process  int64  `json:"process"`
		F        string `json:"f"`
		Key      string `json:"key,omitempty"`
		Input    string `json:"input,omitempty"`
		Output   string `json:"output,omitempty"`
		Outcome  string `json:"outcome"`
		Ignored  bool   `json:"ignored,omitempty"`
		Error    string `json:"error,omitempty"`
		Invoked  int    `json:"invoked"`
		Returned *int   `json:"returned,omitempty"`
		Line     int    `json:"line"`
		Words    string `json:"words"`
	}
	type counterexample struct {
		Index    int64  `json:"index"`
		Line     int    `json:"line"`
		Events   int    `json:"events"`
		Shortest bool   `json:"shortest"`
		Needed   bool   `json:"needed"`
		Method   string `json:"method,omitempty"`
		Steps    []step `json:"steps,omitempty"`
	}
	type outcome struct {
		F    string `json:"f"`
		OK   int    `json:"ok"`
		Fail int    `json:"fail"`
		Info int    `json:"info"`
		Open int    `json:"open"`
	}
	out := struct {
		Verdict        results.Verdict `json:"verdict"`
		Model          string          `json:"model"`
		Specification  string          `json:"specification"`
		Reason         string          `json:"reason,omitempty"`
		Engine         models.Engine   `json:"engine"`
		Rules          []string        `json:"rules"`
		Format         string          `json:"format"`
		Events         int             `json:"events"`
		Skipped        map[string]int  `json:"skipped,omitempty"`
		Keys           int             `json:"keys"`
		Operations     []outcome       `json:"operations"`
		Counterexample *counterexample `json:"counterexample,omitempty"`
	}{
		resultVerdicts[v.Result], m.Name, m.Specification, v.Reason, v.Engine, v.Rules,
		h.Format, h.Total, h.Skipped, v.Keys, []outcome{}, nil,
	}
	for _, c := range v.Counts {
		out.Operations = append(out.Operations, outcome(c))
	}
	if x := v.Counterexample; x != nil {
		c := &counterexample{x.Last.Index, x.Last.Line, x.Events, x.Shortest, x.Needed, x.Method, nil}
		for _, s := range x.Steps {
			o := step{
				s.Process, s.F, s.Key, textUnlessNil(s.Input), textUnlessNil(s.Output), s.Outcome.String(),
				s.Ignored, s.Error, s.Invoked, nil, s.Line, stepWords(&s),
			}
			if s.Returned >= 0 {
				o.Returned = &s.Returned
			}
			c.Steps = append(c.Steps, o)
		}
		out.Counterexample = c
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

func textUnlessNil(v jepsen.Value) string {
	if v == nil {
		return ""
	}
	return jepsen.Text(v)
}
