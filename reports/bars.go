package reports

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockstress/results"
)

// bar is what one cell contributes to a chart.
type bar struct {
	Value     float64
	Low, High float64 // the range over trials, drawn as a whisker if it is one
	Text      string  // the value for people
	N         int     // trials behind it; 0: no value, and Text says why
}

// barChart is a grid of bars: locks downwards, scenarios side by side. Each
// scenario has a scale of its own: what a crowd oversells in contention would make
// the one unit that a choreography is about invisible.
type barChart struct {
	Labels    []string // of the rows
	Scenarios []string
	Bars      [][]*bar // [row][scenario], nil where the run has no such cell
	Sums      string   // what a bar makes of its n trials; %s is replaced by n
	UnitName  string   // of the axis
	Fill      color.Color
	// Unit is what the axis counts in, as a multiple of the bars' values: 1e6 for
	// milliseconds when they are in nanoseconds.
	Unit float64
}

// sideBySide is how many scenarios a chart can hold legibly.
const sideBySide = 6

// charts splits a run into bar charts of at most sideBySide scenarios; measure gives
// the bar of a cell, nil if the chart is not about that cell. Rows and scenarios
// without any bar are left out.
func charts(run *results.Run, measure func(*results.Cell) *bar) []barChart {
	m := newMatrix(run)
	bars := make([][]*bar, len(m.Rows))
	var scenarios []int
	for s := range m.Scenarios {
		any := false
		for r := range m.Rows {
			var b *bar
			if c := cellAt(run, m.Rows[r].Cells[s]); c != nil {
				b = measure(c)
			}
			bars[r] = append(bars[r], b)
			any = any || b != nil && b.N > 0
		}
		if any {
			scenarios = append(scenarios, s)
		}
	}
	if len(scenarios) == 0 {
		return nil
	}
	parts := (len(scenarios) + sideBySide - 1) / sideBySide
	var all []barChart
	for part := range slices.Chunk(scenarios, (len(scenarios)+parts-1)/parts) {
		var c barChart
		for _, s := range part {
			c.Scenarios = append(c.Scenarios, m.Scenarios[s])
		}
		for r := range m.Rows {
			var line []*bar
			for _, s := range part {
				line = append(line, bars[r][s])
			}
			if slices.ContainsFunc(line, func(b *bar) bool { return b != nil }) {
				c.Labels = append(c.Labels, m.Rows[r].Label())
				c.Bars = append(c.Bars, line)
			}
		}
		all = append(all, c)
	}
	return all
}

// damageSketches draws the units oversold and the updates lost.
func damageSketches(run *results.Run) []sketch {
	type chart struct{ figure, file, title, unit, caption string }
	var all []sketch
	for _, c := range []chart{
		{"oversold_units", "oversold", "Units oversold", "units",
			"Each bar is what one lock let through in one scenario: units sold that were not in stock, added up over the cell's trials. " +
				"0 means that the stock was right in every trial judged."},
		{"lost_updates", "lost-updates", "Updates lost", "updates",
			"Each bar counts withdrawals that another client's write undid, added up over the cell's trials. " +
				"0 means that the balance was right in every trial judged."},
	} {
		all = append(all, barSketches(run, Damage, c.file, c.title, c.caption, func(b *barChart) {
			b.Sums, b.UnitName, b.Fill, b.Unit = "Each bar adds up %s. Each scenario has a scale of its own.", c.unit, vermillion, 1
		}, func(cell *results.Cell) *bar { return damageBar(cell, c.figure) })...)
	}
	return all
}

// damageBar sums a figure of the resource over the trials that judged it. A trial
// whose resource held, and which states no figure, counts as 0.
func damageBar(c *results.Cell, figure string) *bar {
	// Which of the two figures a cell is about shows in the figures themselves, or
	// else in the workload.
	about := len(values(c, "resource", figure)) > 0 ||
		figure == "oversold_units" && c.Workload == "stock" || figure == "lost_updates" && c.Workload == "wallet"
	// A stock may well state its lost updates beside the units oversold; unless
	// there are any, they are no chart of their own.
	if figure == "lost_updates" && c.Workload == "stock" && c.Sum("resource", figure) == 0 {
		about = false
	}
	if !about {
		return nil
	}
	var b bar
	for i := range c.Trials {
		if p, ok := judged(&c.Trials[i], "resource"); ok {
			v, stated := p.Figures[figure]
			if p.Verdict == results.Violated && !stated {
				continue
			}
			b.Value += v
			b.N++
		}
	}
	b.Low, b.High = b.Value, b.Value
	b.Text = number(b.Value)
	return orWhyNot(c, "resource", b)
}

// overlapSketches draws for how long two clients believed that they held the lock.
func overlapSketches(run *results.Run) []sketch {
	return barSketches(run, Overlap, "overlap", "Time with two holders at once",
		"Each bar is the median, over the cell's trials, of the time for which two clients believed at once that they held the lock; "+
			"the thin line runs from the shortest to the longest. 0 means that no two beliefs overlapped in any trial judged.",
		func(b *barChart) {
			b.Sums, b.UnitName, b.Fill, b.Unit = "Each bar is the median of %s; the thin line is their range. Each scenario has a scale of its own.", "ms", orange, 1e6
		},
		func(c *results.Cell) *bar {
			var all []float64
			for i := range c.Trials {
				if p, ok := judged(&c.Trials[i], "mutex"); ok {
					v, stated := p.Figures["overlap_ns"]
					if p.Verdict == results.Violated && !stated {
						continue
					}
					all = append(all, v)
				}
			}
			var b bar
			if len(all) > 0 {
				b = bar{Value: median(all), Low: slices.Min(all), High: slices.Max(all), N: len(all)}
				b.Text = Duration(b.Value)
				if b.Value == 0 {
					b.Text = "0"
				}
			}
			return orWhyNot(c, "mutex", b)
		})
}

// judged returns the property of a trial that has a plain verdict on it.
func judged(t *results.Trial, property string) (results.Property, bool) {
	p, ok := t.Property(property)
	if !ok || t.Error != "" || !t.Exercised && p.Verdict != results.Violated {
		return p, false
	}
	return p, p.Verdict == results.Holds || p.Verdict == results.Violated
}

// orWhyNot gives a bar without trials its explanation, and none to a cell that the
// property says nothing about.
func orWhyNot(c *results.Cell, property string, b bar) *bar {
	if b.N > 0 {
		return &b
	}
	n := c.Count(property)
	switch {
	case c.Skipped != "":
		b.Text = "skipped"
	case len(c.Trials) == 0:
		b.Text = "not run"
	case n.Unknown > 0:
		b.Text = "unknown"
	case n.Violated > 0:
		b.Text = "no figure"
	case n.NotExercised > 0:
		b.Text = "not exercised"
	case n.Failed > 0:
		b.Text = "failed to run"
	default:
		return nil
	}
	return &b
}

func barSketches(run *results.Run, kind Kind, file, title, caption string, style func(*barChart), measure func(*results.Cell) *bar) []sketch {
	all := charts(run, measure)
	if len(all) == 0 {
		return absentSketch(kind, title, "No cell of this run gives a figure for it.")
	}
	var out []sketch
	for i := range all {
		c := &all[i]
		style(c)
		s := sketch{Plot: Plot{Kind: kind, Title: title + " by lock and scenario", Caption: caption, Cell: -1}, file: file}
		if len(all) > 1 {
			s.Title += fmt.Sprintf(" (%d of %d)", i+1, len(all))
			s.file += "-" + strconv.Itoa(i+1)
		}
		s.drawing = c.drawing(s.Title)
		out = append(out, s)
	}
	return out
}

const barRow = vg.Length(21)

func (c *barChart) drawing(title string) drawing {
	least, most := math.MaxInt, 0
	for _, line := range c.Bars {
		for _, b := range line {
			if b != nil && b.N > 0 {
				least, most = min(least, b.N), max(most, b.N)
			}
		}
	}
	n := "n = " + plural(most, "trial", "trials")
	if least != most {
		n += " unless it says otherwise"
	}
	names := c.panelTitles()
	lines := 0
	for _, n := range names {
		lines = max(lines, len(n))
	}
	return drawing{
		title:    title,
		subtitle: fmt.Sprintf(c.Sums, n),
		height:   barRow*vg.Length(len(c.Labels)) + panelLine*vg.Length(lines) + 42,
		body:     func(canvas draw.Canvas) { c.draw(canvas, names, most) },
	}
}

// panelTitles are the scenarios, folded.
func (c *barChart) panelTitles() [][]string {
	var names [][]string
	for _, s := range c.Scenarios {
		names = append(names, fold(boldStyle(9, ink), s, c.panelWidth()))
	}
	return names
}

// panelWidth is the width of the data area of one scenario, near enough.
func (c *barChart) panelWidth() vg.Length {
	style := newPlot().Y.Tick.Label
	var labels vg.Length
	for _, l := range c.Labels {
		labels = max(labels, style.Width(shorten(style, l, maxLabel)))
	}
	return (drawingWidth-2*margin-labels-8)/vg.Length(len(c.Scenarios)) - 12
}

// textRoom is kept free of bars on the right of each panel, for the values.
const textRoom = vg.Length(62)

func (c *barChart) draw(canvas draw.Canvas, names [][]string, usualN int) {
	width := c.panelWidth()
	panels := make([]*plot.Plot, len(c.Scenarios))
	for s := range c.Scenarios {
		top := c.top(s)
		p := newPlot()
		p.X.Min, p.X.Max = 0, top*float64(width/max(width-textRoom, width/3))
		p.X.Tick.Marker = c.xTicks(top)
		p.X.Label.Text = c.UnitName
		lanes(p, c.Labels, s == 0)
		p.Add(&barPanel{chart: c, scenario: s, usualN: usualN})
		panels[s] = p
	}
	drawPanels(canvas, panels, names)
}

// top is the largest value of a scenario, or one unit if there is none.
func (c *barChart) top(scenario int) float64 {
	var top float64
	for _, line := range c.Bars {
		if b := line[scenario]; b != nil {
			top = max(top, b.High)
		}
	}
	if top == 0 {
		return c.Unit
	}
	return top
}

// xTicks marks 0 and one or two round values up to top.
func (c *barChart) xTicks(top float64) plot.ConstantTicks {
	step := niceStep(top / c.Unit)
	ticks := plot.ConstantTicks{}
	for v := 0.0; v <= top/c.Unit*1.0001; v += step {
		ticks = append(ticks, plot.Tick{Value: v * c.Unit, Label: number(v)})
	}
	return ticks
}

// niceStep is the largest of 1, 2, 5 × 10ᵏ that is not above top, so that an axis
// gets one or two marks beside 0; whole where counts are small.
func niceStep(top float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(top)))
	for _, m := range []float64{5, 2, 1} {
		if m*base <= top*1.0001 {
			return m * base
		}
	}
	return base
}

// barPanel draws the bars of one scenario.
type barPanel struct {
	chart    *barChart
	scenario int
	usualN   int
}

func (b *barPanel) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	value, missing := textStyle(8.5, ink), textStyle(8, faint)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		canvas.StrokeLine2(line(rule, 0.5), x(t.Value), canvas.Min.Y, x(t.Value), canvas.Max.Y)
	}
	for r, row := range b.chart.Bars {
		v := row[b.scenario]
		if v == nil {
			continue
		}
		at := y(float64(len(b.chart.Bars) - 1 - r))
		if v.N == 0 {
			fillText(canvas, missing, vg.Point{X: x(0) + 4, Y: at - 3}, v.Text)
			continue
		}
		const half = vg.Length(6)
		fillRect(canvas, vg.Rectangle{Min: vg.Point{X: x(0), Y: at - half}, Max: vg.Point{X: x(v.Value), Y: at + half}}, b.chart.Fill)
		end := x(v.Value)
		if v.High > v.Low {
			canvas.StrokeLine2(line(ink, 0.8), x(v.Low), at, x(v.High), at)
			for _, edge := range []float64{v.Low, v.High} {
				canvas.StrokeLine2(line(ink, 0.8), x(edge), at-3, x(edge), at+3)
			}
			end = x(v.High)
		}
		said := v.Text
		if v.N != b.usualN {
			said += fmt.Sprintf(" (n=%d)", v.N)
		}
		fillText(canvas, value, vg.Point{X: end + 4, Y: at - 3}, shorten(value, said, canvas.Max.X+6-end-4))
	}
}
