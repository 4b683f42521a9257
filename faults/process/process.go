// Package process injects faults into processes: a long pause (what a stop-the-world
// collection, a suspended virtual machine or a starved container look like from
// outside) and a crash.
//
// The whole process is stopped, heartbeats included. Sleeping in one of its threads
// would leave the heartbeat alive and hide the failure that matters.
package process

import (
	"context"
	"fmt"
	"syscall"

	"lockstress/internal/proc"
)

// Pause stops the process and its helpers, and returns once the kernel reports that
// every thread of it stands still.
func Pause(ctx context.Context, p *proc.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- waitStopped(p.Pid) }()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("waiting for %s (process %d) to stop: %w", p.Name, p.Pid, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s (process %d) to stop: %w", p.Name, p.Pid, context.Cause(ctx))
	}
}

// Resume lets a paused process go on.
func Resume(p *proc.Process) error { return p.Signal(syscall.SIGCONT) }

// Crash kills the process, and returns once it is gone.
func Crash(p *proc.Process) error {
	if err := p.Kill(); err != nil {
		return err
	}
	<-p.Done()
	return nil
}
