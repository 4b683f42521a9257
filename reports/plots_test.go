package reports

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"lockstress/results"
)

// manyRun has more locks and scenarios than fit one picture, with long names.
func manyRun() *results.Run {
	rng := rand.New(rand.NewPCG(7, 7))
	run := &results.Run{Complete: true, Seed: 7}
	for l := range 15 {
		lock := fmt.Sprintf("exec:python3 adapters/some_rather_long_name_%d.py --nodes=5", l)
		for s := range 8 {
			c := results.Cell{Lock: lock, Guard: "none", Workload: "stock", Scenario: fmt.Sprintf("failover/sentinel-isolated-mode-%d", s)}
			for n := range 3 {
				t := results.Trial{N: n + 1, Exercised: true, History: "h"}
				judgeTrial(&t, true, false, broken("lease", "mutex", "resource"))
				overlapping(&t, rng, 400*ms, 100*ms*int64(1+s))
				setFigure(&t, "resource", "oversold_units", float64(rng.IntN(100000)))
				c.Trials = append(c.Trials, t)
			}
			if s == 0 {
				c.Latency = []results.Latency{sampleLatency(rng, "acquire", 500, 0.1*float64(1+l)), sampleLatency(rng, "release", 90, 0.1)}
			}
			run.Cells = append(run.Cells, c)
		}
	}
	return run
}

// fewRun has one lock, one scenario, one trial, and nothing went wrong in it.
func fewRun() *results.Run {
	t := results.Trial{N: 1, Exercised: true}
	judgeTrial(&t, true, false, nil)
	return &results.Run{Complete: true, Cells: []results.Cell{
		{Lock: "a", Guard: "none", Scenario: "contention", Workload: "stock", Trials: []results.Trial{t}},
	}}
}

// crowdedRun has a trial with far more holds, clients and faults than a picture.
func crowdedRun() *results.Run {
	t := results.Trial{N: 1, Exercised: true}
	judgeTrial(&t, true, false, map[string]results.Verdict{"mutex": results.Violated, "resource": results.NotApplicable})
	for i := range int64(400) {
		t.Holds = append(t.Holds, results.Hold{Client: int(i % 30), Hold: i + 1, Key: "k", From: i * ms, To: i*ms + 3*ms/2, Lease: i*ms + 100*ms})
	}
	t.Holds = append(t.Holds, results.Hold{Client: 99, Hold: 999, Key: "k", From: 200 * ms, To: -1})
	for i := range int64(20) {
		t.Spans = append(t.Spans, results.Span{Text: strings.Repeat("a fault that takes many words to describe ", 5), Node: "n", From: 195*ms + i*ms, To: 0})
	}
	return &results.Run{Complete: true, Cells: []results.Cell{
		{Lock: "a", Guard: "none", Scenario: "torture", Workload: "lock", Trials: []results.Trial{t}},
	}}
}

func TestPlots(t *testing.T) {
	shortened := only(loadSample(t), "none", "token")
	shortened.Cells = slices.DeleteFunc(shortened.Cells, func(c results.Cell) bool {
		return guarded(c.Guard) || c.Scenario != "contention" && c.Scenario != "gc_pause"
	})
	for name, c := range map[string]struct {
		run    *results.Run
		drawn  map[Kind]int
		absent []Kind
	}{
		"sample":  {shortened, map[Kind]int{Damage: 2, Overlap: 1, Latency: 1, Distribution: 1, Timeline: 1}, nil},
		"few":     {fewRun(), map[Kind]int{Damage: 1, Overlap: 1}, []Kind{Damage, Latency, Distribution, Timeline}},
		"crowded": {crowdedRun(), map[Kind]int{Timeline: 1}, []Kind{Damage, Damage, Overlap, Latency, Distribution}},
		"none":    {&results.Run{}, map[Kind]int{}, []Kind{Damage, Damage, Overlap, Latency, Distribution, Timeline}},
	} {
		t.Run(name, func(t *testing.T) {
			plots, err := Plots(filepath.Join(t.TempDir(), "plots"), c.run)
			if err != nil {
				t.Fatal(err)
			}
			drawn := map[Kind]int{}
			var absent []Kind
			for _, p := range plots {
				if p.Absent != "" {
					absent = append(absent, p.Kind)
					if p.PNG != "" || p.SVG != "" {
						t.Errorf("%q is absent and has files", p.Title)
					}
					continue
				}
				drawn[p.Kind]++
				checkPNG(t, p)
				checkSVG(t, p)
			}
			if !reflect.DeepEqual(drawn, c.drawn) || !slices.Equal(absent, c.absent) {
				t.Errorf("drawn %v, absent %v; want %v, %v", drawn, absent, c.drawn, c.absent)
			}
		})
	}
}

// only keeps the cells of some locks.
func only(run *results.Run, locks ...string) *results.Run {
	run.Cells = slices.DeleteFunc(run.Cells, func(c results.Cell) bool { return !slices.Contains(locks, c.Lock) })
	return run
}

// vectorPlots is [Plots] without the PNGs, which take most of the time.
func vectorPlots(t *testing.T, run *results.Run) []Plot {
	t.Helper()
	dir := t.TempDir()
	var plots []Plot
	for i, s := range sketches(run) {
		if s.Absent == "" {
			data, err := s.svg()
			if err != nil {
				t.Fatal(err)
			}
			s.SVG = filepath.Join(dir, strconv.Itoa(i)+".svg")
			if err := os.WriteFile(s.SVG, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		plots = append(plots, s.Plot)
	}
	return plots
}

func TestPlotsAreLegible(t *testing.T) {
	for name, c := range map[string]struct {
		run  *results.Run
		want map[Kind]int
	}{
		"sample": {loadSample(t), map[Kind]int{Damage: 2, Overlap: 1, Latency: 1, Distribution: 1, Timeline: 20}},
		// Eight scenarios make two charts, fifteen locks two distributions.
		"many": {manyRun(), map[Kind]int{Damage: 2, Overlap: 2, Latency: 1, Distribution: 2, Timeline: 15 * 8}},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := map[Kind]int{}
			for _, p := range vectorPlots(t, c.run) {
				if p.Absent != "" {
					continue
				}
				// The many timelines of the many locks are all alike.
				if kinds[p.Kind]++; kinds[p.Kind] <= 30 {
					checkSVG(t, p)
				}
			}
			if !reflect.DeepEqual(kinds, c.want) {
				t.Errorf("drawn %v, want %v", kinds, c.want)
			}
		})
	}
}

func TestPlotsAreTheSameEachTime(t *testing.T) {
	again := sketches(sampleRun())
	for i, s := range sketches(loadSample(t)) {
		renderings := map[string]func(drawing) ([]byte, error){"svg": drawing.svg}
		if i == 0 {
			renderings["png"] = drawing.png
		}
		for name, render := range renderings {
			a, err1 := render(s.drawing)
			b, err2 := render(again[i].drawing)
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%q: two %s of the same run differ (%v)", s.Title, name, err)
			}
		}
	}
}

func checkPNG(t *testing.T, p Plot) {
	t.Helper()
	f, err := os.Open(p.PNG)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := png.DecodeConfig(f)
	if err != nil {
		t.Fatalf("%s: %v", p.PNG, err)
	}
	if size.Width != 1500 || size.Height < 200 || size.Height > 1400 {
		t.Errorf("%s is %d × %d pixels", p.Title, size.Width, size.Height)
	}
}

var fontSize = regexp.MustCompile(`font-size:([\d.]+)px`)

// checkSVG proves that the file is well-formed and that no text leaves the picture or
// lies on another text.
func checkSVG(t *testing.T, p Plot) {
	t.Helper()
	data, err := os.ReadFile(p.SVG)
	if err != nil {
		t.Fatal(err)
	}
	type label struct {
		text string
		vg.Rectangle
	}
	var labels []label
	var turned []bool // for each open group, whether its text stands upright
	var current *label
	size := 0.0
	for dec := xml.NewDecoder(bytes.NewReader(data)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v", p.SVG, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			attr := map[string]string{}
			for _, a := range token.Attr {
				attr[a.Name.Local] = a.Value
			}
			if token.Name.Local == "g" {
				turned = append(turned, strings.Contains(attr["transform"], "rotate"))
			}
			if token.Name.Local == "text" && !slices.Contains(turned, true) {
				x, _ := strconv.ParseFloat(attr["x"], 64)
				y, _ := strconv.ParseFloat(attr["y"], 64)
				size, _ = strconv.ParseFloat(fontSize.FindStringSubmatch(attr["style"])[1], 64)
				current = &label{Rectangle: vg.Rectangle{Min: vg.Point{X: vg.Length(x), Y: -vg.Length(y)}}}
			}
		case xml.EndElement:
			if token.Name.Local == "g" {
				turned = turned[:len(turned)-1]
			}
			if token.Name.Local == "text" && current != nil {
				labels = append(labels, *current)
				current = nil
			}
		case xml.CharData:
			if current != nil {
				current.text = string(token)
				current.Max.X = current.Min.X + textStyle(vg.Length(size), ink).Width(current.text)
				// Capitals and figures stand about 0.7 of the size above the line.
				current.Max.Y = current.Min.Y + vg.Length(size)*0.7
			}
		}
	}
	if len(labels) < 5 {
		t.Errorf("%s has only %d texts", p.Title, len(labels))
	}
	for i, a := range labels {
		if strings.TrimSpace(a.text) == "" {
			continue
		}
		if a.Min.X < 0 || a.Max.X > drawingWidth+1 {
			t.Errorf("%s: %q leaves the picture, from %v to %v", p.Title, a.text, a.Min.X, a.Max.X)
		}
		for _, b := range labels[:i] {
			if strings.TrimSpace(b.text) != "" && a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y {
				t.Errorf("%s: %q lies on %q", p.Title, a.text, b.text)
			}
		}
	}
}

func TestOverlaps(t *testing.T) {
	h := func(client int, from, to int64) results.Hold {
		return results.Hold{Client: client, From: from, To: to}
	}
	for name, c := range map[string]struct {
		holds []results.Hold
		want  []overlap
	}{
		"none":              {nil, nil},
		"touching":          {[]results.Hold{h(0, 0, 10), h(1, 10, 20)}, nil},
		"two":               {[]results.Hold{h(0, 0, 10), h(1, 6, 20)}, []overlap{{6, 10, []int{0, 1}}}},
		"same client twice": {[]results.Hold{h(0, 0, 10), h(0, 5, 15)}, nil},
		"two separate": {[]results.Hold{h(0, 0, 10), h(1, 6, 20), h(2, 18, 30)},
			[]overlap{{6, 10, []int{0, 1}}, {18, 20, []int{1, 2}}}},
		"a third joins": {[]results.Hold{h(0, 0, 100), h(1, 10, 100), h(2, 90, 100)}, []overlap{{10, 100, []int{0, 1}}}},
		"no duration":   {[]results.Hold{h(0, 0, 10), h(1, 5, 5)}, nil},
	} {
		if got := overlaps(c.holds); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
