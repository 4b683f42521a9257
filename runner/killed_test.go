package runner

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstress/checker"
	"lockstress/history"
	"lockstress/internal/redistest"
	"lockstress/results"
)

// coordinatorCommand makes the test binary a coordinator that can be killed.
const coordinatorCommand = "coordinate"

func coordinate() error {
	var o Options
	if err := json.Unmarshal([]byte(os.Getenv("STRESS_TEST_OPTIONS")), &o); err != nil {
		return err
	}
	_, err := Run(context.Background(), o, silent{})
	return err
}

type silent struct{}

func (silent) Planned(int)                      {}
func (silent) Began(string, int)                {}
func (silent) Ended(string, int, results.Trial) {}

// A coordinator killed in mid-trial leaves no process, stopped ones included, and no
// folder, and what was recorded can be judged.
func TestKilledCoordinatorLeavesNothing(t *testing.T) {
	redistest.Need(t)
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this test finds processes through /proc")
	}
	// A mark in the environment, which all descendants inherit, tells ours from
	// those of other tests.
	mark := "STRESS_TEST_MARK=" + strconv.Itoa(os.Getpid()) + t.Name()
	temp := t.TempDir()
	o := options(t)
	o.Locks, o.Scenarios, o.Guards = []string{"token"}, []string{"gc_pause", "failover"}, []string{"none"}
	o.Trials = 3
	asJSON, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(o.Self[0], coordinatorCommand)
	cmd.Env = append(os.Environ(), mark, "STRESS_TEST_OPTIONS="+string(asJSON), "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	// The moment to kill is when a worker stands still.
	deadline := time.Now().Add(30 * time.Second)
	stopped := func(p running) bool { return p.state == "T" && strings.Contains(p.command, WorkerCommand) }
	for !some(marked(t, mark), stopped) {
		if time.Now().After(deadline) {
			t.Fatal("no worker was ever stopped")
		}
		time.Sleep(time.Millisecond)
	}
	before := len(marked(t, mark))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	cmd.Wait()
	for {
		left := marked(t, mark)
		dirs, _ := filepath.Glob(filepath.Join(temp, "*"))
		if len(left) == 0 && len(dirs) == 0 {
			break
		}
		if time.Since(killed) > 5*time.Second {
			t.Fatalf("5 s after the kill there are still %v and %v", left, dirs)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("%d processes of the run, all gone %v after the kill", before, time.Since(killed).Round(time.Millisecond))

	parts, err := filepath.Glob(filepath.Join(o.Out, "histories", "*", "*.parts"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("no journals of the trial under way: %v", err)
	}
	judged := 0
	for _, dir := range parts {
		if journals, _ := filepath.Glob(filepath.Join(dir, "*.jsonl")); len(journals) == 0 {
			continue // its servers were still being started
		}
		h, err := history.Load(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		judged++
		report, err := checker.Check(t.Context(), h, checker.Options{})
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if report.Exercised {
			t.Errorf("%s: a trial cut short counts as exercised", dir)
		}
	}
	if judged == 0 {
		t.Errorf("none of %v holds a journal", parts)
	}
}

// A run that is interrupted says so, keeps the results so far, and leaves nothing.
func TestInterruptedRun(t *testing.T) {
	redistest.Need(t)
	o := options(t)
	o.Locks, o.Scenarios, o.Guards = []string{"token"}, []string{"gc_pause"}, []string{"none"}
	o.Trials, o.Parallel = 50, 1
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, err := Run(ctx, o, afterFirst{interrupt})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the interruption", err)
	}
	if r == nil || r.Complete || len(r.Cells) != 1 || len(r.Cells[0].Trials) == 0 || len(r.Cells[0].Trials) == 50 {
		t.Fatalf("results of an interrupted run: %+v", r)
	}
	stored, err := results.Read(filepath.Join(o.Out, "results.json"))
	if err != nil || stored.Complete {
		t.Errorf("stored results: %+v, %v", stored, err)
	}
}

type afterFirst struct{ interrupt func() }

func (a afterFirst) Planned(int)                      {}
func (a afterFirst) Began(string, int)                {}
func (a afterFirst) Ended(string, int, results.Trial) { a.interrupt() }

type running struct {
	pid     int
	state   string
	command string
}

// marked lists the processes with the mark in their environment.
func marked(t *testing.T, mark string) []running {
	t.Helper()
	var list []running
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !strings.Contains(string(env), mark) {
			continue // gone, or not ours
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		at := strings.LastIndexByte(string(stat), ')')
		fields := strings.Fields(string(stat)[at+1:])
		if len(fields) == 0 || fields[0] == "Z" {
			continue // dead, not yet reaped
		}
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if syscall.Kill(pid, 0) == nil {
			list = append(list, running{pid, fields[0], strings.ReplaceAll(string(command), "\x00", " ")})
		}
	}
	return list
}

func some(list []running, is func(running) bool) bool {
	for _, p := range list {
		if is(p) {
			return true
		}
	}
	return false
}
