package main

import (
	"errors"
	"fmt"
	"syscall"

	"lockstress/history"
	"lockstress/history/jepsen"

	"github.com/spf13/cobra"
)

func historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "convert histories",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(convertCommand())
	return cmd
}

func convertCommand() *cobra.Command {
	var independent bool
	cmd := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "write a history in our own format, packed or not",
		Long: `convert reads a history – of our own, gzipped or not, or the folder of journals that an
unfinished trial left behind, or one of a lock in Jepsen's EDN or JSON – and writes it in
our own format (docs/history-format.md), gzipped if the name of OUT ends in .gz.

A history of another tool does not say what its lock promises: its header will say that
holds do not expire and that there are no fencing tokens.`,
		Example: `  stress history convert 1.jsonl 1.jsonl.gz
  stress history convert jepsen/history.edn lock.jsonl`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := history.Load(args[0])
			if errors.Is(err, history.ErrForeign) {
				h, err = convertForeign(args[0], err, jepsen.Options{Independent: independent})
			}
			if err != nil {
				return exit{exitInput, err}
			}
			if err := history.Save(args[1], h); err != nil {
				return exit{exitInput, err}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d events of %d clients\n", args[1], len(h.Events), h.Header.Clients)
			return nil
		},
	}
	cmd.Flags().BoolVar(&independent, "independent", false, "values are [key value] tuples of independent objects")
	return cmd
}

func convertForeign(path string, ours error, o jepsen.Options) (*history.History, error) {
	foreign, err := jepsen.Load(path, o)
	switch {
	case errors.Is(err, jepsen.ErrUnknownFormat), errors.Is(err, syscall.EISDIR):
		return nil, ours
	case err != nil:
		return nil, fmt.Errorf("%w; read as a history of another tool: %w", ours, err)
	}
	h, err := jepsen.Convert(foreign)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}
