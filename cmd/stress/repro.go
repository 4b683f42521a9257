package main

import (
	"fmt"
	"os"
	"path/filepath"

	"lockstress/checker"
	"lockstress/history"
	"lockstress/reports/story"
	"lockstress/results"
	"lockstress/runner"
	"lockstress/scenarios"

	"github.com/spf13/cobra"
)

func reproCommand() *cobra.Command {
	var o runner.Options
	var lock, guard, work, keep string
	cmd := &cobra.Command{
		Use:   "repro NAME",
		Short: "play one scenario with one lock, and tell what happened as a story",
		Long: `repro plays the scenario NAME once, checks the history, and tells it as a numbered
timeline: who did what when, what the server did, and where it broke.

` + exitCodes,
		Example: `  stress repro gc_pause --lock token
  stress repro gc_pause --lock fenced --guard fenced
  stress repro failover/sentinel --lock token
  stress repro expiry_midop --lock naive --workload wallet`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := scenarios.Find(args[0])
			if err != nil {
				return err
			}
			o.Scenarios, o.Locks, o.Guards, o.Workloads = []string{found[0].Name}, []string{lock}, []string{guard}, []string{work}
			o.Trials, o.Parallel, o.CheckTimeout, o.Exact = 1, 1, checkTimeout, true
			cells, err := runner.Plan(o)
			if err != nil {
				return err
			}
			if why := cells[0].Skipped; why != "" {
				return fmt.Errorf("%s does not apply to %s with guard %s: %s", found[0].Name, lock, guard, why)
			}
			folder := keep
			if folder == "" {
				if folder, err = os.MkdirTemp("", "stress-repro-*"); err != nil {
					return err
				}
				defer os.RemoveAll(folder)
				o.Passing = true
			}
			run, err := perform(cmd, o, folder)
			if err != nil {
				return err
			}
			trial := run.Cells[0].Trials[0]
			if trial.Error != "" {
				return fmt.Errorf("the trial could not be completed: %s", trial.Error)
			}
			return tell(cmd, found[0], filepath.Join(folder, trial.History))
		},
	}
	f := cmd.Flags()
	f.StringVar(&lock, "lock", "token", "the lock")
	f.StringVar(&guard, "guard", "none", "the guard of the resource")
	f.StringVar(&work, "workload", "stock", "the workload")
	f.Int64Var(&o.Seed, "seed", defaultSeed, "seed of all random choices; that of a trial in results.json plays it again")
	f.DurationVar(&o.TTL, "ttl", defaultTTL, "TTL of the lock; scenarios that need a longer one take it")
	f.IntVar(&o.Clients, "clients", 0, "clients in contention (default as the workload says)")
	f.IntVar(&o.Workers, "workers", defaultWorkers, "processes that host the clients in contention")
	redisImageFlag(f, &o)
	f.StringVar(&keep, "keep", "", "folder in which to leave the history; it is not kept otherwise")
	return cmd
}

// longStory is the number of events beyond which a story is told from the cut-down
// history of the violation only.
const longStory = 120

func tell(cmd *cobra.Command, s scenarios.Scenario, path string) error {
	w := cmd.OutOrStdout()
	h, err := history.Load(path)
	if err != nil {
		return err
	}
	report, err := checker.Check(cmd.Context(), h, checker.Options{Timeout: checkTimeout})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s\n\n", s.Name, s.Summary)
	if len(h.Events) <= longStory {
		if err := story.Tell(w, h); err != nil {
			return err
		}
	} else if err := tellViolations(w, report); err != nil {
		return err
	}
	fmt.Fprintln(w)
	printJudgement(w, h, report)
	switch {
	case report.Verdict() == results.Violated:
		fmt.Fprintf(w, "\nBroken: %s.\n", broken(report))
	case !report.Exercised:
		fmt.Fprintf(w, "\nThe trial tested nothing: %s.\n", report.Why)
	case report.Verdict() == results.Holds:
		fmt.Fprintf(w, "\nEverything that applies held.\n")
	default:
		fmt.Fprintf(w, "\nThe judge could not tell.\n")
	}
	return judgementExit(report)
}
