package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"lockstress/checker"
	"lockstress/history"
	"lockstress/reports"
	"lockstress/reports/story"
	"lockstress/results"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

// checkGC lets the heap grow by as much as this, in percent, before it is collected: a
// long history is read once and kept.
const checkGC = 200

func checkCommand() *cobra.Command {
	var timeout time.Duration
	var asJSON, explain bool
	var foreign foreignFlags
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "judge a stored history again, or one of another tool, from the file alone",
		Long: `check reads one history (docs/history-format.md), or the folder of journals that an
unfinished trial left behind (….parts), judges every property, and tells the story of
the violations it finds.

A history of another tool – Jepsen's EDN, the same as a JSON array or JSON lines – is
judged against the model that --model names. Its format is told from its content. Any
file may be gzipped.

` + exitCodes,
		Example: `  stress check reports/out/latest/histories/token_none_gc_pause_stock/1.jsonl
  stress check --model mutex --fail unknown jepsen/history.edn
  stress check --model lease --ttl 2s --explain locks.jsonl.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer debug.SetGCPercent(debug.SetGCPercent(checkGC))
			w := cmd.OutOrStdout()
			h, err := history.Load(args[0])
			if errors.Is(err, history.ErrForeign) {
				return foreign.check(cmd, args[0], err, timeout, asJSON, explain)
			}
			if err != nil {
				return exit{exitInput, err}
			}
			if name := foreign.given(cmd); name != "" {
				return exit{exitInput, fmt.Errorf("%s is a history of stress, whose header says how to judge it: --%s is for those of other tools", args[0], name)}
			}
			report, err := checker.Check(cmd.Context(), h, checker.Options{Timeout: timeout})
			if err != nil {
				return err
			}
			if asJSON {
				if err := writeJudgement(w, h, report); err != nil {
					return err
				}
			} else {
				printJudgement(w, h, report)
				if err := tellViolations(w, report); err != nil {
					return err
				}
				if explain {
					explainJudgement(w, h, report)
				}
			}
			return judgementExit(report)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", checkTimeout, "time limit of each search; beyond it the verdict is unknown")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the verdicts as JSON")
	cmd.Flags().BoolVar(&explain, "explain", false, "say in plain words what was checked, how operations ended, and what was assumed")
	foreign.add(cmd)
	return cmd
}

// judgementExit turns a judgement into an exit code.
func judgementExit(r *checker.Report) error {
	switch v := r.Verdict(); {
	case v == results.Violated:
		return exit{code: exitViolated}
	case !r.Exercised, v != results.Holds:
		return exit{code: exitUnknown}
	}
	return nil
}

func writeJudgement(w io.Writer, h *history.History, r *checker.Report) error {
	var properties []results.Property
	for _, f := range r.Findings {
		properties = append(properties, f.Property)
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(struct {
		Header     history.Header     `json:"header"`
		Verdict    results.Verdict    `json:"verdict"`
		Exercised  bool               `json:"exercised"`
		Why        string             `json:"why,omitempty"`
		Evidence   []string           `json:"evidence,omitempty"`
		Operations map[string]int     `json:"operations"`
		Properties []results.Property `json:"properties"`
	}{h.Header, r.Verdict(), r.Exercised, r.Why, r.Evidence, r.Operations, properties})
}

// printJudgement prints the verdict on every property, with the figures beside it.
func printJudgement(w io.Writer, h *history.History, r *checker.Report) {
	fmt.Fprintf(w, "%s, guard %s, %s, %s: trial %d, seed %d\n",
		h.Header.Lock, h.Header.Guard, h.Header.Scenario, h.Header.Workload, h.Header.Trial, h.Header.Seed)
	fmt.Fprintf(w, "%d operations ok, %d failed, %d unknown\n", r.Operations["ok"], r.Operations["fail"], r.Operations["info"])
	for _, e := range r.Evidence {
		fmt.Fprintf(w, "the fault bit: %s\n", e)
	}
	if !r.Exercised {
		fmt.Fprintf(w, "NOT EXERCISED: %s\n", r.Why)
	}
	fmt.Fprintln(w)
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Options.SeparateColumns = false
	t.AppendHeader(table.Row{"property", "verdict", "why", "figures"})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: 62, WidthMaxEnforcer: text.WrapSoft},
		{Number: 4, WidthMax: 40, WidthMaxEnforcer: text.WrapSoft},
	})
	for _, f := range r.Findings {
		t.AppendRow(table.Row{f.Name, mark(f.Verdict), f.Reason, figures(f.Figures)})
	}
	t.Render()
}

func mark(v results.Verdict) string {
	switch v {
	case results.Holds:
		return "✓ holds"
	case results.Violated:
		return "✗ VIOLATED"
	case results.Unknown:
		return "? unknown"
	}
	return "– " + string(v)
}

// figures names what was measured, for people; what is zero says nothing.
func figures(all map[string]float64) string {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if v := all[name]; v != 0 {
			label, value := reports.Figure(name, v)
			said = append(said, label+" "+value)
		}
	}
	return strings.Join(said, ", ")
}

// tellViolations tells the cut-down history of each violation.
func tellViolations(w io.Writer, r *checker.Report) error {
	for _, f := range r.Findings {
		if f.Cut == nil {
			continue
		}
		fmt.Fprintf(w, "\nWhy %s is violated:\n", f.Name)
		if err := story.Tell(w, f.Cut); err != nil {
			return err
		}
	}
	return nil
}

// broken names what is violated.
func broken(r *checker.Report) string {
	var names []string
	for _, f := range r.Findings {
		if f.Verdict == results.Violated {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}
