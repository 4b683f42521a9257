package runner

import (
	"context"
	"fmt"
	"os"
	"testing"

	"lockstress/faults/network"
	"lockstress/internal/proc"
	"lockstress/worker"
)

// TestMain lets the test binary be every process of a run, as the real command is.
func TestMain(m *testing.M) {
	worker.Quiet()
	if len(os.Args) != 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case WorkerCommand:
		err = worker.Run(context.Background(), os.Stdin, os.Stdout)
	case ProxyCommand:
		err = network.Serve(context.Background(), os.Stdout, os.Stdin, nil)
	case coordinatorCommand:
		err = coordinate()
	case GuardianCommand:
		err = proc.Guardian(os.Stdin)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func self(t *testing.T) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{path}
}
