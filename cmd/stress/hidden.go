package main

import (
	"os/signal"
	"syscall"

	"lockstress/faults/network"
	"lockstress/internal/proc"
	"lockstress/runner"
	"lockstress/worker"

	"github.com/spf13/cobra"
)

// hiddenCommands are the other processes of a run. They end when their standard
// input does, not at Ctrl-C: that is for the coordinator, which ends them.
func hiddenCommands() []*cobra.Command {
	hide := func(name, short string, run func(cmd *cobra.Command) error) *cobra.Command {
		return &cobra.Command{
			Use: name, Short: short, Hidden: true, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				signal.Ignore(syscall.SIGINT)
				return run(cmd)
			},
		}
	}
	return []*cobra.Command{
		hide(runner.WorkerCommand, "a client process of a trial", func(cmd *cobra.Command) error {
			return worker.Run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		}),
		hide(runner.ProxyCommand, "the proxy process of a trial", func(cmd *cobra.Command) error {
			return network.Serve(cmd.Context(), cmd.OutOrStdout(), cmd.InOrStdin(), nil)
		}),
		hide(runner.GuardianCommand, "ends what a killed coordinator left behind", func(cmd *cobra.Command) error {
			return proc.Guardian(cmd.InOrStdin())
		}),
	}
}
