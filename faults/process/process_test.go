package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"lockstress/internal/proc"
)

func start(t *testing.T) (*proc.Process, io.Writer, *bufio.Reader) {
	t.Helper()
	group, err := proc.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Close() })
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	cmd.Stdout = in
	p, err := group.Start("cat", cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p, stdin, bufio.NewReader(out)
}

func state(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	fields := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
	return fields[0]
}

func TestPauseAndResume(t *testing.T) {
	p, in, out := start(t)
	for range 3 { // the news of one stop must not be taken for that of the next
		if err := Pause(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if s := state(t, p.Pid); s != "T" {
			t.Fatalf("paused, and its state is %s", s)
		}
		fmt.Fprintln(in, "hello")
		if out.Buffered() > 0 {
			t.Fatal("it answers while paused")
		}
		if err := Resume(p); err != nil {
			t.Fatal(err)
		}
		if line, err := out.ReadString('\n'); line != "hello\n" {
			t.Fatalf("after the pause it says %q, %v", line, err)
		}
	}
}

func TestCrashEndsAPausedProcessToo(t *testing.T) {
	p, _, _ := start(t)
	if err := Pause(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := Crash(p); err != nil {
		t.Fatal(err)
	}
	if p.Err() == nil {
		t.Error("a killed process ended well")
	}
	if err := Pause(t.Context(), p); err == nil {
		t.Error("a process that has ended can be paused")
	}
}
