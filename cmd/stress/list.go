package main

import (
	"encoding/json"
	"fmt"
	"io"

	"lockstress/impls"
	"lockstress/scenarios"
	"lockstress/workload"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

// entry describes one thing that a flag can name.
type entry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind,omitempty"` // family of a lock; "extra" of a scenario that is played only when asked for
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
}

// catalog is all there is to list.
type catalog struct {
	Locks      []entry `json:"locks"`
	Scenarios  []entry `json:"scenarios"`
	Guards     []entry `json:"guards"`
	Workloads  []entry `json:"workloads"`
	Properties []entry `json:"properties"`
}

func listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "describe the locks, scenarios, guards, workloads and properties",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := newCatalog()
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(c)
			}
			w := cmd.OutOrStdout()
			section(w, "Locks (--locks)", c.Locks)
			section(w, "Scenarios (--scenarios; those marked extra are played when named, or with all)", c.Scenarios)
			section(w, "Guards (--guard)", c.Guards)
			section(w, "Workloads (--workload)", c.Workloads)
			section(w, "Properties", c.Properties)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newCatalog() catalog {
	c := catalog{Properties: properties}
	for _, l := range impls.All() {
		c.Locks = append(c.Locks, entry{Name: l.Name, Kind: l.Family, Summary: l.Summary})
	}
	for _, s := range scenarios.All() {
		e := entry{Name: s.Name, Summary: s.Summary, Detail: s.Timeline}
		if s.Extra {
			e.Kind = "extra"
		}
		c.Scenarios = append(c.Scenarios, e)
	}
	for _, g := range workload.Guards() {
		c.Guards = append(c.Guards, entry{Name: g.Name, Summary: g.Summary})
	}
	for _, w := range workload.All() {
		c.Workloads = append(c.Workloads, entry{Name: w.Name, Summary: w.Summary})
	}
	return c
}

var properties = []entry{
	{Name: "lease", Summary: "is the lock a correct lease: granted only when free or when the last holder's time was up?"},
	{Name: "mutex", Summary: "is it what its users believe: never two holders at once?"},
	{Name: "resource", Summary: "is the history of the protected resource linearizable? How much was oversold or lost?"},
	{Name: "honesty", Summary: "do acquire, extend and release tell the truth about ownership?"},
	{Name: "fencing", Summary: "do fencing tokens strictly increase in the order of grants?"},
	{Name: "notice", Summary: "after losing the lock, how long does the holder go on believing?"},
	{Name: "orphan", Summary: "how long is the lock taken with nobody alive behind it?"},
	{Name: "progress", Summary: "how long does it take to get a lock that is free; is anyone starved?"},
}

func section(w io.Writer, title string, entries []entry) {
	fmt.Fprintf(w, "%s\n", title)
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 1, WidthMin: 18}, {Number: 2, WidthMax: 100, WidthMaxEnforcer: text.WrapSoft}})
	for _, e := range entries {
		summary := e.Summary
		if e.Kind != "" {
			summary = "[" + e.Kind + "] " + summary
		}
		if e.Detail != "" {
			summary += "\n" + e.Detail
		}
		t.AppendRow(table.Row{"  " + e.Name, summary})
	}
	t.Render()
	fmt.Fprintln(w)
}
