package reports

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstress/results"
)

func renderPage(t *testing.T, run *results.Run) string {
	t.Helper()
	plots := vectorPlots(t, run)
	var b bytes.Buffer
	if err := Page(&b, run, plots); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	imageData = regexp.MustCompile(`data:image/svg\+xml;base64,[A-Za-z0-9+/=]+`)
	styleText = regexp.MustCompile(`(?s)<style>.*?</style>`)
)

// The golden page has some of the sample's locks and trials, no style and no
// pictures: what is left is the structure and the words.
func TestPage(t *testing.T) {
	run := only(loadSample(t), "none", "fenced", "redsync")
	for i := range run.Cells {
		c := &run.Cells[i]
		c.Trials = slices.DeleteFunc(c.Trials, func(t results.Trial) bool { return t.N != 1 && t.N != 6 })
	}
	html := styleText.ReplaceAllString(renderPage(t, run), "<style>…</style>")
	html = imageData.ReplaceAllString(html, "data:…")
	golden(t, "page.html", []byte(html))
}

func TestPageStandsAlone(t *testing.T) {
	html := renderPage(t, loadSample(t))
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if ids[m[1]] {
			t.Errorf("id %q is used twice", m[1])
		}
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(` href="#([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if !ids[m[1]] {
			t.Errorf("a link leads to #%s, which does not exist", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`<(link|script|iframe)\b|(src|href)="(https?:|//|file:|/)`).FindAllString(html, -1) {
		t.Errorf("the page asks for something outside: %s", m)
	}
	if strings.Contains(html, "url(") || strings.Contains(html, "@import") {
		t.Error("the style asks for something outside")
	}
	for _, m := range regexp.MustCompile(`<th\b[^>]*>`).FindAllString(html, -1) {
		if !strings.Contains(m, "scope=") {
			t.Errorf("a header cell without scope: %s", m)
		}
	}
	for _, m := range regexp.MustCompile(`<img\b[^>]*>`).FindAllString(imageData.ReplaceAllString(html, "data:"), -1) {
		if !regexp.MustCompile(`alt="[^"]+"`).MatchString(m) {
			t.Errorf("an image without a text: %s", m)
		}
	}
	checkNesting(t, html)
}

// checkNesting proves that every element that is opened is closed in its place.
func checkNesting(t *testing.T, html string) {
	t.Helper()
	var open []string
	html = styleText.ReplaceAllString(html, "")
	for _, m := range regexp.MustCompile(`<(/?)([a-z][a-z0-9]*)\b[^>]*>`).FindAllStringSubmatch(html, -1) {
		switch {
		case slices.Contains([]string{"meta", "img"}, m[2]):
		case m[1] == "":
			open = append(open, m[2])
		case len(open) == 0 || open[len(open)-1] != m[2]:
			t.Fatalf("</%s> closes %v", m[2], open)
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("never closed: %v", open)
	}
}

func TestPageEscapesEverything(t *testing.T) {
	const bad = `<script>alert("x")</script>'&`
	trial := results.Trial{
		N: 1, History: `javascript:alert("x")`, Exercised: false, Why: bad, Evidence: []string{bad},
		Operations: map[string]int{bad: 1},
		Properties: []results.Property{{
			Name: "mutex", Verdict: results.Violated, Reason: bad, Figures: map[string]float64{bad + "_ns": 1},
			Counterexample: `../with space/#1?.jsonl`, Picture: `data:text/html,` + bad,
		}},
		Holds: []results.Hold{{Key: bad, From: 0, To: 10}, {Client: 1, Key: bad, From: 5, To: 10}},
		Spans: []results.Span{{Text: bad, Node: bad, To: 10}},
	}
	run := &results.Run{
		Command: []string{"stress", bad}, Versions: map[string]string{bad: bad}, Machine: results.Machine{OS: bad, CPU: bad},
		Cells: []results.Cell{
			{Lock: bad, Family: bad, Guard: bad, Scenario: bad, Workload: bad, Topology: bad, Trials: []results.Trial{trial, {Error: bad}}},
			{Lock: bad, Scenario: "x", Skipped: bad},
		},
	}
	html := renderPage(t, run)
	for _, m := range []string{"<script", `alert("x")`, "ZgotmplZ"} {
		if strings.Contains(html, m) {
			t.Errorf("the page contains %q", m)
		}
	}
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if strings.HasPrefix(m[1], "javascript:") || strings.HasPrefix(m[1], "data:") {
			t.Errorf("a link runs something: %s", m[1])
		}
	}
	if !strings.Contains(html, `href="../with%20space/%231%3F.jsonl"`) {
		t.Error("a path with special characters is not a link to that file")
	}
	checkNesting(t, html)
}

func TestPageOfNothing(t *testing.T) {
	html := renderPage(t, &results.Run{})
	for _, want := range []string{"Nothing was run", "Incomplete", "No picture"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q", want)
		}
	}
	checkNesting(t, html)
}

func TestPageNamesAMissingPlot(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gone.svg")
	err := Page(&bytes.Buffer{}, &results.Run{}, []Plot{{Title: "Gone", SVG: missing}})
	if err == nil || !strings.Contains(err.Error(), "Gone") || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want an error that names the plot and the file", err)
	}
}

func TestCommands(t *testing.T) {
	c := &results.Cell{Lock: "exec:node it's.js", Guard: "fenced", Scenario: "gc_pause", Workload: "wallet"}
	trial := &results.Trial{Seed: 7, History: "histories/a b.jsonl"}
	if got, want := reproCommand(c, trial), `stress repro gc_pause --lock 'exec:node it'\''s.js' --guard fenced --workload wallet --seed 7`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := checkCommand(trial), `stress check 'histories/a b.jsonl'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"stress", "bench"}, "stress bench --seed 7"},
		{[]string{"stress", "bench", "--seed", "7"}, "stress bench --seed 7"},
		{[]string{"stress", "bench", "--seed=7"}, "stress bench --seed=7"},
	} {
		if got := runCommand(&results.Run{Command: c.args, Seed: 7}); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
