// Package proc starts the processes of a run and sees to it that none outlives it,
// however the run ends.
//
// Three things end a process of a [Group]: Group.Close; on Linux the parent-death
// signal, which the kernel sends when the coordinator dies, even to a stopped
// process; and the guardian, a small process that holds one end of a pipe, notices
// that the coordinator is gone, kills what is left and removes temporary folders.
package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Group is everything that one run has started or made. Its methods may be called
// concurrently.
type Group struct {
	spawn    chan func() // runs on the one thread that forks
	guardian *exec.Cmd   // nil: none
	pipe     io.WriteCloser

	mu     sync.Mutex
	closed bool
	procs  map[*Process]struct{}
	dirs   map[string]struct{}
}

// Process is a started process, the leader of a process group of its own.
type Process struct {
	Name  string
	Pid   int
	group *Group
	cmd   *exec.Cmd
	done  chan struct{}
	err   error
}

// NewGroup returns an empty group. guardian is the command line that runs
// [Guardian] on its standard input, normally this very program with a hidden
// sub-command; without one, only a parent-death signal covers a killed coordinator.
func NewGroup(guardian ...string) (*Group, error) {
	g := &Group{spawn: make(chan func()), procs: map[*Process]struct{}{}, dirs: map[string]struct{}{}}
	// The parent-death signal comes when the *thread* that forked ends, so one
	// thread does all the forking and lives as long as the group.
	go func() {
		runtime.LockOSThread()
		for f := range g.spawn {
			f()
		}
	}()
	if len(guardian) == 0 {
		return g, nil
	}
	cmd := exec.Command(guardian[0], guardian[1:]...)
	cmd.Stderr = os.Stderr
	// In a session of its own, Ctrl-C does not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the guardian: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the guardian %s: %w", guardian[0], err)
	}
	g.guardian, g.pipe = cmd, pipe
	return g, nil
}

// Start runs cmd in a process group of its own. name is for error messages. The
// command's SysProcAttr is replaced.
func (g *Group) Start(name string, cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = sysProcAttr()
	p := &Process{Name: name, group: g, cmd: cmd, done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("starting %s: the run is over", name)
	}
	started := make(chan error)
	g.spawn <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.Pid = cmd.Process.Pid
	g.procs[p] = struct{}{}
	g.tell("pid", strconv.Itoa(p.Pid))
	go func() {
		p.err = cmd.Wait()
		g.mu.Lock()
		delete(g.procs, p)
		g.tell("gone", strconv.Itoa(p.Pid))
		g.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// TempDir makes a folder that goes with the group.
func (g *Group) TempDir(pattern string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return "", errors.New("making a temporary folder: the run is over")
	}
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", err
	}
	g.dirs[dir] = struct{}{}
	g.tell("dir", dir)
	return dir, nil
}

// RemoveDir removes a folder made by [Group.TempDir] before the group ends.
func (g *Group) RemoveDir(dir string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.dirs[dir]; !ok {
		return nil
	}
	delete(g.dirs, dir)
	g.tell("nodir", dir)
	return os.RemoveAll(dir)
}

// Close kills every process of the group, waits for each to end and removes the
// folders. It is safe to call twice.
func (g *Group) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	var left []*Process
	for p := range g.procs {
		left = append(left, p)
	}
	g.mu.Unlock()

	var errs []error
	for _, p := range left {
		errs = append(errs, p.Kill())
	}
	for _, p := range left {
		<-p.done
	}
	for dir := range g.dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	close(g.spawn)
	if g.guardian != nil {
		g.mu.Lock()
		g.tell("bye", "")
		g.mu.Unlock()
		errs = append(errs, g.pipe.Close())
		errs = append(errs, g.guardian.Wait())
	}
	return errors.Join(errs...)
}

// tell informs the guardian. The caller holds mu. A guardian that is gone is no
// reason to fail a run: the parent-death signal still stands.
func (g *Group) tell(verb, arg string) {
	if g.pipe != nil {
		fmt.Fprintf(g.pipe, "%s %s\n", verb, arg)
	}
}

// Signal sends a signal to the whole process group of p: its helpers stop and die
// with it.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return fmt.Errorf("%s (process %d) has already ended", p.Name, p.Pid)
	default:
	}
	if err := syscall.Kill(-p.Pid, sig); err != nil {
		return fmt.Errorf("sending %v to %s (process %d): %w", sig, p.Name, p.Pid, err)
	}
	return nil
}

// Kill ends the process group with SIGKILL. That it has ended already is no error.
func (p *Process) Kill() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s (process %d): %w", p.Name, p.Pid, err)
	}
	return nil
}

// Stop asks the process to end with SIGTERM and kills it after the grace period.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return nil // it has ended
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	err := p.Kill()
	<-p.done
	return err
}

// Done is closed once the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended; call it after Done.
func (p *Process) Err() error { return p.err }

// Guardian reads what a [Group] tells it until the pipe is closed. If the group did
// not say goodbye, its process is dead: everything it had started is killed and its
// folders are removed.
func Guardian(r io.Reader) error {
	pids := map[int]bool{}
	dirs := map[string]bool{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		verb, arg, _ := strings.Cut(lines.Text(), " ")
		pid, _ := strconv.Atoi(arg)
		switch verb {
		case "pid":
			pids[pid] = true
		case "gone":
			delete(pids, pid)
		case "dir":
			dirs[arg] = true
		case "nodir":
			delete(dirs, arg)
		case "bye":
			return nil
		}
	}
	for pid := range pids {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	var errs []error
	for dir := range dirs {
		errs = append(errs, removeAll(dir))
	}
	return errors.Join(errs...)
}

// removeAll retries for a while: a server that was just killed may still be
// creating a file in its folder.
func removeAll(dir string) error {
	var err error
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
