package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockstress/results"
)

// latencyScenario is the one that compares locks fairly: contention, without a
// fault. A run without it gives the first scenario that measured anything.
const latencyScenario = "contention"

var latencyOps = []string{"acquire", "release"}

// latencyRow is one lock and what its operations took, by name.
type latencyRow struct {
	Label string
	Ops   map[string]results.Latency
}

func latencyRows(run *results.Run) (scenario string, rows []latencyRow) {
	m := newMatrix(run)
	best := -1
	for s, name := range m.Scenarios {
		measured := slices.ContainsFunc(m.Rows, func(r row) bool {
			c := cellAt(run, r.Cells[s])
			return c != nil && len(c.Latency) > 0
		})
		if measured && (best < 0 || name == latencyScenario) {
			best = s
		}
	}
	if best < 0 {
		return "", nil
	}
	for _, r := range m.Rows {
		c := cellAt(run, r.Cells[best])
		if c == nil {
			continue
		}
		ops := map[string]results.Latency{}
		for _, l := range c.Latency {
			// A duration of nothing has no place on a logarithmic axis.
			if l.Count > 0 && l.P50 > 0 {
				ops[l.Op] = l
			}
		}
		if len(ops) > 0 {
			rows = append(rows, latencyRow{r.Label(), ops})
		}
	}
	return m.Scenarios[best], rows
}

// latencyRange of all rows in nanoseconds, and how many operations are behind them.
func latencyRange(rows []latencyRow, op string) (least, most float64, fewest, largest int64) {
	least, fewest = math.Inf(1), math.MaxInt64
	for _, r := range rows {
		if l, ok := r.Ops[op]; ok {
			least = min(least, float64(l.P50))
			for _, b := range l.Buckets {
				if b.Count > 0 && b.Upper > 0 {
					least = min(least, float64(b.Upper))
					break
				}
			}
			most = max(most, float64(l.Max), float64(l.P50), float64(l.P999))
			fewest, largest = min(fewest, l.Count), max(largest, l.Count)
		}
	}
	return least, most, fewest, largest
}

func latencySketches(run *results.Run) []sketch {
	scenario, rows := latencyRows(run)
	const title = "Latency of acquire and release"
	const distribution = "Distribution of latency"
	if len(rows) == 0 {
		const why = "No cell of this run measured latencies."
		return append(absentSketch(Latency, title, why), absentSketch(Distribution, distribution, why)...)
	}
	// Each panel has a lower and an upper end of its own kind, but one axis for
	// both makes them comparable.
	least, most := math.Inf(1), 0.0
	counts := ""
	for _, op := range latencyOps {
		l, m, fewest, largest := latencyRange(rows, op)
		if m == 0 {
			continue
		}
		least, most = min(least, l), max(most, m)
		if counts != "" {
			counts += ", "
		}
		counts += thousands(fewest)
		if fewest != largest {
			counts += " to " + thousands(largest)
		}
		counts += " " + op + "s"
	}
	counts = "n = " + counts + " per lock"
	out := []sketch{{
		Plot: Plot{
			Kind: Latency, Cell: -1, Title: title + ", scenario " + scenario,
			Caption: "Per lock the median and the two upper percentiles of all operations that ended ok, on a logarithmic axis: left is faster. " +
				"The wait for a lock that somebody holds is part of acquire. A percentile that too few operations stand behind is not drawn " +
				"(p99 from 100, p999 from 1,000).",
		},
		file:    "latency",
		drawing: percentileDrawing(title+", scenario "+scenario, counts+". Logarithmic axis.", rows, least, most),
	}}
	return append(out, distributionSketches(distribution+", scenario "+scenario, counts, rows, least, most)...)
}

var percentiles = []struct {
	name  string
	least int64 // operations it takes to mean something
	style draw.GlyphStyle
	of    func(results.Latency) int64
}{
	{"p50, median", 1, draw.GlyphStyle{Color: blue, Radius: 4, Shape: draw.CircleGlyph{}}, func(l results.Latency) int64 { return l.P50 }},
	{"p99", 100, draw.GlyphStyle{Color: orange, Radius: 4.5, Shape: draw.PyramidGlyph{}}, func(l results.Latency) int64 { return l.P99 }},
	{"p999", 1000, draw.GlyphStyle{Color: vermillion, Radius: 3.6, Shape: draw.BoxGlyph{}}, func(l results.Latency) int64 { return l.P999 }},
	{"longest", 1, draw.GlyphStyle{Color: ink, Radius: 3.5, Shape: draw.CrossGlyph{}}, func(l results.Latency) int64 { return l.Max }},
}

func percentileDrawing(title, subtitle string, rows []latencyRow, least, most float64) drawing {
	d := drawing{title: title, subtitle: subtitle, height: 23*vg.Length(len(rows)) + 50}
	for _, p := range percentiles {
		d.key = append(d.key, keyEntry{p.name, glyph(p.style)})
	}
	var labels []string
	for _, r := range rows {
		labels = append(labels, r.Label)
	}
	d.body = func(canvas draw.Canvas) {
		var panels []*plot.Plot
		for i, op := range latencyOps {
			p := newPlot()
			p.X.Label.Text = "duration of one " + op
			logAxis(&p.X, least, most)
			lanes(p, labels, i == 0)
			p.Add(&percentilePanel{rows, op})
			panels = append(panels, p)
		}
		drawPanels(canvas, panels, [][]string{{latencyOps[0]}, {latencyOps[1]}})
	}
	return d
}

type percentilePanel struct {
	rows []latencyRow
	op   string
}

func (l *percentilePanel) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	gridX(canvas, p)
	for r, row := range l.rows {
		at := y(float64(len(l.rows) - 1 - r))
		lat, ok := row.Ops[l.op]
		if !ok {
			canvas.FillText(textStyle(8, faint), vg.Point{X: canvas.Min.X + 4, Y: at - 3}, "not measured")
			continue
		}
		last := x(float64(max(lat.P50, lat.Max)))
		canvas.StrokeLine2(line(gray, 0.8), x(float64(lat.P50)), at, last, at)
		for _, q := range percentiles {
			if v := q.of(lat); lat.Count >= q.least && v > 0 {
				canvas.DrawGlyphNoClip(q.style, vg.Point{X: x(float64(v)), Y: at})
			}
		}
	}
}

// gridX draws a line at each labelled tick.
func gridX(canvas draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&canvas)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if !t.IsMinor() {
			canvas.StrokeLine2(line(rule, 0.5), x(t.Value), canvas.Min.Y, x(t.Value), canvas.Max.Y)
		}
	}
}

// logAxis spans least … most, in nanoseconds, up to the next marks, with durations as
// labels: powers of ten, and 1-2-5 where these would be too few.
func logAxis(a *plot.Axis, least, most float64) {
	a.Scale = plot.LogScale{}
	a.Min, a.Max = least*0.8, most*1.25
	from, to := math.Floor(math.Log10(a.Min)), math.Ceil(math.Log10(a.Max))
	labelled := []float64{1}
	if math.Log10(a.Max/a.Min) < 2.5 {
		labelled = []float64{1, 2, 5}
		if math.Log10(a.Max/a.Min) > 1.5 {
			labelled = []float64{1, 3}
		}
	}
	var ticks plot.ConstantTicks
	for e := from; e <= to; e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < a.Min || v > a.Max {
				continue
			}
			t := plot.Tick{Value: v}
			if slices.Contains(labelled, m) {
				t.Label = Duration(v)
			}
			ticks = append(ticks, t)
		}
	}
	a.Tick.Marker = ticks
}

// linesTogether is how many locks one distribution can hold legibly.
const linesTogether = 8

func distributionSketches(title, counts string, rows []latencyRow, least, most float64) []sketch {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r latencyRow) bool {
		return !slices.ContainsFunc(latencyOps, func(op string) bool { return len(r.Ops[op].Buckets) > 0 })
	})
	if len(rows) == 0 {
		return absentSketch(Distribution, title, "No cell of this run recorded a histogram of its latencies.")
	}
	parts := (len(rows) + linesTogether - 1) / linesTogether
	var out []sketch
	for part := range slices.Chunk(rows, (len(rows)+parts-1)/parts) {
		s := sketch{
			Plot: Plot{
				Kind: Distribution, Cell: -1, Title: title,
				Caption: "For each duration on the horizontal axis, the share of operations that took no longer, stretched towards 100 % so that the " +
					"slowest ones can be seen: a line further left is a faster lock, a line that bends to the right has a long tail.",
			},
			file: "distribution",
		}
		if parts > 1 {
			s.Title += fmt.Sprintf(" (%d of %d)", len(out)+1, parts)
			s.file += "-" + strconv.Itoa(len(out)+1)
		}
		s.drawing = distributionDrawing(s.Title, counts+". Logarithmic axes.", part, least, most)
		out = append(out, s)
	}
	return out
}

func distributionDrawing(title, subtitle string, rows []latencyRow, least, most float64) drawing {
	d := drawing{title: title, subtitle: subtitle, height: 290}
	styles := make([]draw.LineStyle, len(rows))
	for i, r := range rows {
		styles[i] = line(lineColors[i%len(lineColors)], 1.6, lineDashes[i%len(lineDashes)]...)
		d.key = append(d.key, keyEntry{shorten(keyStyle, r.Label, 220), stroke(styles[i])})
	}
	// The axis of shares ends where the least of them can be told: at one operation
	// of the largest lot.
	rarest := 0.1
	for _, r := range rows {
		for _, op := range latencyOps {
			if n := r.Ops[op].Count; n > 0 {
				rarest = min(rarest, 1/float64(n))
			}
		}
	}
	d.body = func(canvas draw.Canvas) {
		var panels []*plot.Plot
		for i, op := range latencyOps {
			p := newPlot()
			p.X.Label.Text = "duration of one " + op
			logAxis(&p.X, least, most)
			p.Y.Min, p.Y.Max = 0, -math.Log10(rarest)
			p.Y.Tick.Marker = shareTicks(p.Y.Max, i == 0)
			if i == 0 {
				p.Y.Label.Text = "share of operations done within it"
			}
			p.Add(&distributionPanel{rows, styles, op})
			panels = append(panels, p)
		}
		drawPanels(canvas, panels, [][]string{{latencyOps[0]}, {latencyOps[1]}})
	}
	return d
}

// shareTicks label −log₁₀ of the share that took longer by the share that did not.
func shareTicks(top float64, labelled bool) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, t := range []struct {
		longer float64
		label  string
	}{{1, "0 %"}, {.5, "50 %"}, {.1, "90 %"}, {.01, "99 %"}, {1e-3, "99.9 %"}, {1e-4, "99.99 %"}, {1e-5, "99.999 %"}} {
		if v := -math.Log10(t.longer); v <= top {
			if !labelled {
				t.label = " "
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: t.label})
		}
	}
	return ticks
}

type distributionPanel struct {
	rows   []latencyRow
	styles []draw.LineStyle
	op     string
}

func (d *distributionPanel) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	gridX(canvas, p)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		canvas.StrokeLine2(line(rule, 0.5), canvas.Min.X, y(t.Value), canvas.Max.X, y(t.Value))
	}
	drawn := false
	for i, r := range d.rows {
		var total, done int64
		for _, b := range r.Ops[d.op].Buckets {
			total += b.Count
		}
		var points []vg.Point
		for _, b := range r.Ops[d.op].Buckets {
			if b.Count <= 0 || b.Upper <= 0 {
				continue
			}
			if points == nil {
				points = append(points, vg.Point{X: x(float64(b.Upper)), Y: y(0)})
			}
			done += b.Count
			// Nothing is longer than the longest: its share would be infinitely far up.
			longer := max(float64(total-done), 1) / float64(total)
			points = append(points, vg.Point{X: x(min(float64(b.Upper), p.X.Max)), Y: y(min(p.Y.Max, -math.Log10(longer)))})
		}
		if len(points) > 0 {
			canvas.StrokeLines(d.styles[i], canvas.ClipLinesXY(points)...)
			drawn = true
		}
	}
	if !drawn {
		canvas.FillText(textStyle(9, faint), vg.Point{X: canvas.Min.X + 8, Y: canvas.Center().Y}, "not measured")
	}
}
