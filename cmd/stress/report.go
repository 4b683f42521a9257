package main

import (
	"fmt"
	"path/filepath"

	"lockstress/reports"
	"lockstress/results"

	"github.com/spf13/cobra"
)

func reportCommand() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "report [FOLDER]",
		Short: "draw plots and report.html again from a run's results.json",
		Long: `report reads results.json in FOLDER (default reports/out/latest), draws its plots and
writes report.html there, and prints the table.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := filepath.Join("reports", "out", "latest")
			if len(args) > 0 {
				folder = args[0]
			}
			run, err := results.Read(filepath.Join(folder, "results.json"))
			if err != nil {
				return fmt.Errorf("%w (make one with: stress run)", err)
			}
			page, err := reports.WriteAll(folder, run)
			if err != nil {
				return err
			}
			if markdown {
				return reports.Markdown(cmd.OutOrStdout(), run)
			}
			printRun(cmd.OutOrStdout(), run, page)
			return nil
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the table as Markdown")
	return cmd
}
