package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lockstress/reports"
	"lockstress/results"
	"lockstress/runner"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// defaults of a run.
const (
	defaultTTL     = 500 * time.Millisecond
	defaultTrials  = 3
	defaultSeed    = 1
	defaultWorkers = 2
	// Trials mostly wait for leases to end: several fit on a small machine. But
	// they have moments to keep, so not too many.
	defaultParallel = 8
	checkTimeout    = 10 * time.Second
)

func runCommand() *cobra.Command {
	var o runner.Options
	var parent, failOn string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run a matrix of locks × scenarios × trials, check it, and report",
		Long: `run plays every scenario with every lock it applies to, several times, checks every
history, and writes histories, results.json, plots and report.html into a new folder
under --out, which the link "latest" there then points to. It prints one table: a row
per lock, a column per scenario.

Without flags it runs all locks in all scenarios. A run with the same --seed plans the
same trials; what the machine's scheduler does in between differs.

` + exitCodes,
		Example: `  stress run
  stress run --locks token,redlock --scenarios gc_pause,failover --trials 20
  stress run --locks fenced --guard fenced --scenarios gc_pause --fail-on violated
  stress run --workload wallet --scenarios contention --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if failOn != "never" && failOn != "violated" {
				return fmt.Errorf("--fail-on %s: known are never, violated", failOn)
			}
			folder := runner.Folder(parent, time.Now())
			run, err := perform(cmd, o, folder)
			if run == nil {
				return err
			}
			page, reportErr := reports.WriteAll(folder, run)
			if err == nil {
				err = errors.Join(reportErr, runner.Latest(folder))
			}
			if err != nil {
				if run.Complete || len(run.Cells) > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "What was done until then is in %s\n", folder)
				}
				return err
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				if err := out.Encode(run); err != nil {
					return err
				}
			} else {
				printRun(cmd.OutOrStdout(), run, page)
			}
			return runExit(run, failOn == "violated")
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Locks, "locks", nil, "locks to run, comma-separated (default all)")
	f.StringSliceVar(&o.Scenarios, "scenarios", nil, "scenarios to play (default all); failover stands for all its modes")
	f.StringSliceVar(&o.Guards, "guard", nil, "guards of the resource (default none, and fenced for locks with fencing tokens)")
	f.StringSliceVar(&o.Workloads, "workload", nil, "workloads (default stock)")
	f.IntVar(&o.Trials, "trials", defaultTrials, "trials of each cell")
	f.Int64Var(&o.Seed, "seed", defaultSeed, "seed of all random choices")
	f.DurationVar(&o.TTL, "ttl", defaultTTL, "TTL of the locks; scenarios that need a longer one take it")
	f.IntVar(&o.Clients, "clients", 0, "clients in contention (default as the workload says)")
	f.IntVar(&o.Workers, "workers", defaultWorkers, "processes that host the clients in contention")
	f.IntVar(&o.Parallel, "parallel", defaultParallel, "trials side by side, where time is not measured")
	f.DurationVar(&o.CheckTimeout, "check-timeout", checkTimeout, "time limit of each check; beyond it the verdict is unknown")
	redisImageFlag(f, &o)
	f.StringVar(&parent, "out", filepath.Join("reports", "out"), "folder for the folders of runs")
	f.StringVar(&failOn, "fail-on", "never", "exit with 1 if something was violated: never, violated")
	f.BoolVar(&asJSON, "json", false, "print results.json instead of the table")
	return cmd
}

// redisImageFlag is the flag of all commands that start servers.
func redisImageFlag(f *pflag.FlagSet, o *runner.Options) {
	f.StringVar(&o.RedisImage, "redis-image", "", "run Redis in Docker containers of this image, as in redis:7 (default redis-server from the PATH)")
}

// perform runs a matrix with progress on standard error. The run is nil if none was
// begun.
func perform(cmd *cobra.Command, o runner.Options, folder string) (*results.Run, error) {
	if _, err := runner.Plan(o); err != nil {
		return nil, err
	}
	var err error
	if o.Self, err = self(); err != nil {
		return nil, err
	}
	o.Command = append([]string{"stress"}, os.Args[1:]...)
	if o.Out, err = filepath.Abs(folder); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fmt.Errorf("making the run's folder: %w", err)
	}
	p := newProgress(cmd.ErrOrStderr())
	run, err := runner.Run(cmd.Context(), o, p)
	p.close()
	return run, err
}

func printRun(w io.Writer, run *results.Run, page string) {
	reports.Table(w, run, reports.TableOptions{Width: width(w), Color: isTerminal(w)})
	fmt.Fprintf(w, "\nReport: %s\n", page)
}

// runExit turns the verdicts of a run into an exit code.
func runExit(run *results.Run, failOnViolated bool) error {
	violated, open := 0, 0
	for i := range run.Cells {
		for j := range run.Cells[i].Trials {
			t := &run.Cells[i].Trials[j]
			has := func(v results.Verdict) bool {
				return slices.ContainsFunc(t.Properties, func(p results.Property) bool { return p.Verdict == v })
			}
			switch {
			case has(results.Violated):
				violated++
			case t.Error != "", !t.Exercised, has(results.Unknown):
				open++
			}
		}
	}
	switch {
	case violated > 0 && failOnViolated:
		return exit{exitViolated, fmt.Errorf("%d trials violated a property (--fail-on violated)", violated)}
	case open > 0:
		return exit{exitUnknown, fmt.Errorf("%d trials have no verdict: unknown, not exercised, or failed; see the report", open)}
	}
	return nil
}
