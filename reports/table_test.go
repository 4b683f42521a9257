package reports

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"

	"lockstress/results"
)

// golden compares with testdata/name, or rewrites it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; if the change is meant, refresh it with -update and look at it (-want +got):\n%s", path, diff)
	}
}

func render(t *testing.T, run *results.Run, opts TableOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Table(&b, run, opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	run := loadSample(t)
	golden(t, "table-140.txt", []byte(render(t, run, TableOptions{Width: 140})))
	golden(t, "table-80-ascii.txt", []byte(render(t, run, TableOptions{Width: 80, ASCII: true})))
}

func TestTableFitsItsWidth(t *testing.T) {
	run := loadSample(t)
	for _, width := range []int{60, 80, 100, 120, 140, 200} {
		for _, color := range []bool{false, true} {
			for line := range strings.Lines(render(t, run, TableOptions{Width: width, Color: color})) {
				if n := text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("width %d, colour %v: a line of %d columns: %s", width, color, n, line)
				}
			}
		}
	}
}

func TestTableColorAddsOnlyColour(t *testing.T) {
	run := loadSample(t)
	plain := render(t, run, TableOptions{Width: 130})
	colored := render(t, run, TableOptions{Width: 130, Color: true})
	if !strings.Contains(colored, "\x1b[1;31m✗ lease 6/6") {
		t.Error("a broken lease is not bold red")
	}
	if got := text.StripEscape(colored); got != plain {
		t.Error("without its escape sequences the coloured table is not the plain one")
	}
}

func TestTableOfNothing(t *testing.T) {
	got := render(t, &results.Run{}, TableOptions{})
	for _, want := range []string{"Nothing was run", "interrupted", "no trials"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := Markdown(&b, loadSample(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.md", b.Bytes())
}

func TestMarkdownEscapes(t *testing.T) {
	run := &results.Run{Complete: true, Cells: []results.Cell{
		{Lock: "a|b<script>", Guard: "none", Scenario: "x*y", Skipped: "no [link](x)\n# title"},
	}}
	var b bytes.Buffer
	if err := Markdown(&b, run); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"a|b", "<script>", "x*y", " [link]", "\n# title"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("unescaped %q in:\n%s", bad, b.String())
		}
	}
}
