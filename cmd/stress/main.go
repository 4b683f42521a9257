// Command stress tortures Redis locks: it runs lock implementations side by side
// against real Redis under faults, checks what the clients saw, and shows what held,
// what broke, and what it cost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"lockstress/worker"

	"github.com/spf13/cobra"
)

// Exit codes. They are part of the interface: gates depend on them.
const (
	exitHolds       = 0
	exitViolated    = 1
	exitInput       = 2 // bad input or environment
	exitUnknown     = 3
	exitInterrupted = 130 // as shells say of SIGINT
)

const exitCodes = `Exit codes:
  check, repro   0 holds, 1 violated, 2 bad input or environment,
                 3 unknown (the judge could not tell, or the fault did not bite)
  run            0 completed: its verdicts are the result
                 1 something was violated, with --fail-on violated only
                 2 bad input or environment
                 3 completed, but some trial has no verdict: unknown, not exercised, or failed
  any            130 interrupted`

// exit is an error that carries an exit code. With a nil cause everything has been
// said already.
type exit struct {
	code  int
	cause error
}

func (e exit) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e exit) Unwrap() error { return e.cause }

func main() {
	worker.Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := stress(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// stress is the whole command, as a function that tests can call.
func stress(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "stress",
		Short: "torture-test Redis distributed locks, and check what they promise",
		Long: `stress runs Redis locks side by side against real Redis servers, under pauses,
expiries, failovers and delayed commands. It records what every client saw, checks the
histories for linearizability, and shows what held, what broke and what it cost.

Begin with:  stress run          the comparison of all locks in all scenarios
             stress repro NAME   one failure, told as a story
             stress list         what there is

` + exitCodes,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(runCommand(), reproCommand(), checkCommand(), listCommand(), reportCommand(), historyCommand())
	root.AddCommand(hiddenCommands()...)
	err := root.ExecuteContext(ctx)
	var e exit
	switch {
	case err == nil:
		return exitHolds
	case errors.As(err, &e):
		if e.cause != nil {
			fmt.Fprintln(stderr, "stress:", e.cause)
		}
		return e.code
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "stress: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "stress:", err)
	return exitInput
}

// self is the command line that starts this program again.
func self() ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the path of this program: %w", err)
	}
	return []string{path}, nil
}
