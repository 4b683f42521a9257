package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// appends is a command that appends a line to a file.
func appends(file string) []string {
	return []string{"sh", "-c", `echo ran >>"$0"`, file}
}

func ran(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "ran\n")
}

func TestCloseRunsCommands(t *testing.T) {
	g, err := NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	kept, withdrawn := filepath.Join(t.TempDir(), "kept"), filepath.Join(t.TempDir(), "withdrawn")
	if _, err := g.AtEnd(appends(kept)...); err != nil {
		t.Fatal(err)
	}
	done, err := g.AtEnd(appends(withdrawn)...)
	if err != nil {
		t.Fatal(err)
	}
	done()
	done()
	if _, err := g.AtEnd(); err == nil {
		t.Error("an empty command was taken")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if ran(t, kept) != 1 || ran(t, withdrawn) != 0 {
		t.Errorf("kept ran %d times, withdrawn %d", ran(t, kept), ran(t, withdrawn))
	}
	if _, err := g.AtEnd(appends(kept)...); err == nil {
		t.Error("a command was taken after the end")
	}
}

func TestCloseReportsCommands(t *testing.T) {
	g, err := NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.AtEnd("sh", "-c", "echo no such thing >&2; exit 1"); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("the error does not carry what the command said: %v", err)
	}
}

func TestGuardianRunsCommands(t *testing.T) {
	for _, c := range []struct {
		name, last string
		want       int
	}{{"killed", "", 2}, {"said goodbye", "bye \n", 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// The folder is removed after the command ran in it.
			dir := filepath.Join(t.TempDir(), "dir")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "a file")
			var told strings.Builder
			fmt.Fprintf(&told, "dir %s\n", dir)
			fmt.Fprintf(&told, "run 1 [\"sh\",\"-c\",\"cd \\\"$1\\\" && echo ran >>\\\"$0\\\"\",%q,%q]\n", out, dir)
			fmt.Fprintf(&told, "run 2 [\"sh\",\"-c\",\"echo ran >>\\\"$0\\\"\",%q]\n", out)
			fmt.Fprintf(&told, "norun 2\nrun 3 nonsense\n%s", c.last)
			if err := Guardian(strings.NewReader(told.String())); err != nil {
				t.Fatal(err)
			}
			if got := ran(t, out); got != c.want {
				t.Errorf("the command ran %d times, want %d", got, c.want)
			}
			if _, err := os.Stat(dir); (c.want > 0) != os.IsNotExist(err) {
				t.Errorf("the folder: %v", err)
			}
		})
	}
}

// A command that complains the time that there is nothing to remove is no error.
func TestGuardianForgivesOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "thing")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Guardian(strings.NewReader(fmt.Sprintf("run 1 [\"rm\",%q]\n", file))); err != nil {
		t.Error(err)
	}
	if err := Guardian(strings.NewReader(fmt.Sprintf("run 1 [\"rm\",%q]\n", file))); err == nil {
		t.Error("nothing to remove, twice, was no error")
	}
}
