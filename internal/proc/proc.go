// Package proc starts the processes of a run and sees to it that none outlives it,
// however the run ends.
//
// Three things end a process of a [Group]: Group.Close; on Linux the parent-death
// signal, which the kernel sends when the coordinator dies, even to a stopped
// process; and the guardian, a small process that holds one end of a pipe, notices
// that the coordinator is gone, kills what is left and removes temporary folders. What
// is not a process of ours, such as a container, is ended by a command: [Group.AtEnd].
package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	ends   map[string][]string // commands to run at the end, by key
	ended  int                 // keys given out
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
	g := &Group{spawn: make(chan func()), procs: map[*Process]struct{}{}, dirs: map[string]struct{}{}, ends: map[string][]string{}}
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

// Adopt makes the guardian remove a folder that the coordinator made itself, should
// the coordinator be killed. [Group.Close] leaves it alone.
func (g *Group) Adopt(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell("dir", dir)
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

// AtEnd has a command run when the group ends, by [Group.Close] or by the guardian of
// a dead coordinator, after the processes were killed and before the folders are
// removed. Tell of it before making what it removes. done withdraws it. A guardian runs
// it twice, a second apart: what the coordinator asked for as it died may come to be
// after the first time. Each has [EndTimeout].
func (g *Group) AtEnd(command ...string) (done func(), err error) {
	if len(command) == 0 {
		return nil, errors.New("keeping a command for the end: it is empty")
	}
	asJSON, err := json.Marshal(command)
	if err != nil {
		return nil, fmt.Errorf("keeping the command %q for the end: %w", command, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("keeping the command %q for the end: the run is over", command)
	}
	g.ended++
	key := strconv.Itoa(g.ended)
	g.ends[key] = command
	g.tell("run", key+" "+string(asJSON))
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if _, ok := g.ends[key]; ok {
			delete(g.ends, key)
			g.tell("norun", key)
		}
	}, nil
}

// EndTimeout bounds each command of [Group.AtEnd].
const EndTimeout = 30 * time.Second

// runAll runs the commands at once. Their standard output is thrown away.
func runAll(commands map[string][]string) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, c := range commands {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), EndTimeout)
			defer cancel()
			cmd := exec.CommandContext(ctx, c[0], c[1:]...)
			cmd.WaitDelay = time.Second
			var said strings.Builder
			cmd.Stderr = &said
			if err := cmd.Run(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("running %s: %w: %s", strings.Join(c, " "), err, strings.TrimSpace(said.String())))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close kills every process of the group, waits for each to end, runs the commands of
// [Group.AtEnd] and removes the folders. It is safe to call twice.
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
	g.mu.Lock()
	commands := maps.Clone(g.ends)
	g.mu.Unlock()
	errs = append(errs, runAll(commands))
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
// not say goodbye, its process is dead: everything it had started is killed, its last
// commands are run and its folders are removed.
func Guardian(r io.Reader) error {
	pids := map[int]bool{}
	dirs := map[string]bool{}
	commands := map[string][]string{}
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
		case "run":
			key, asJSON, _ := strings.Cut(arg, " ")
			var command []string
			if err := json.Unmarshal([]byte(asJSON), &command); err == nil && len(command) > 0 {
				commands[key] = command
			}
		case "norun":
			delete(commands, arg)
		case "bye":
			return nil
		}
	}
	for pid := range pids {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	var errs []error
	if len(commands) > 0 {
		// The time that it finds nothing to remove, a command may complain.
		first := runAll(commands)
		time.Sleep(time.Second)
		if second := runAll(commands); first != nil && second != nil {
			errs = append(errs, second)
		}
	}
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
