package reports

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockstress/results"
)

// timeline is what one picture of a violation shows: part of one trial, one key.
type timeline struct {
	Key       string
	From, To  int64 // of the window, in nanoseconds from the trial's start
	Clients   []int // the lanes, rising
	Holds     []results.Hold
	Spans     []results.Span
	Overlaps  []overlap
	Cut       bool // not the whole trial is shown
	MoreSpans int  // faults in the window for which there was no room
}

// overlap is a time during which two or more clients believed in a hold.
type overlap struct {
	From, To int64
	Clients  []int // of its longest stretch, rising
}

const (
	maxHolds = 24 // in one picture; a trial with more is shown around the violation
	maxLanes = 10
	maxSpans = 6
)

// timelineSketches draws the first violated trial of each violated cell.
func timelineSketches(run *results.Run) []sketch {
	var out []sketch
	violated := false
	for i := range run.Cells {
		c := &run.Cells[i]
		s := judge(c).State
		if s != leaseBroken && s != mutexBroken && s != otherBroken {
			continue
		}
		violated = true
		t := tellingTrial(c)
		if t == nil {
			continue
		}
		title, subtitle, caption, tl := story(c, t)
		out = append(out, sketch{
			Plot:    Plot{Kind: Timeline, Title: title, Caption: caption, Cell: i},
			file:    fileName("timeline", c.Lock, c.Guard, c.Scenario, c.Workload),
			drawing: tl.drawing(title, subtitle),
		})
	}
	if len(out) > 0 {
		return out
	}
	if violated {
		return absentSketch(Timeline, "Timeline of a violation", "No violated trial recorded who held the lock when.")
	}
	return absentSketch(Timeline, "Timeline of a violation", "Nothing was violated.")
}

// tellingTrial is the first trial that recorded holds and broke the lease, else the
// mutex, else anything; nil if there is none.
func tellingTrial(c *results.Cell) *results.Trial {
	for _, broke := range []func(*results.Trial) bool{breaks("lease"), breaks("mutex"), violates} {
		for i := range c.Trials {
			if t := &c.Trials[i]; t.Error == "" && len(t.Holds) > 0 && broke(t) {
				return t
			}
		}
	}
	return nil
}

func breaks(property string) func(*results.Trial) bool {
	return func(t *results.Trial) bool {
		p, _ := t.Property(property)
		return p.Verdict == results.Violated
	}
}

// story finds what a trial has to show and the words for it.
func story(c *results.Cell, t *results.Trial) (title, subtitle, caption string, tl timeline) {
	tl = newTimeline(t)
	who := rowOf(c).Label() + " under " + c.Scenario
	worst := tl.worst()
	lease, _ := t.Property("lease")
	switch {
	case worst == nil && breaks("lease")(t):
		title = who + ": the lock broke its lease"
	case worst == nil:
		title = fmt.Sprintf("%s: never two holders at once, and yet %s broke", who, strings.Join(violations(c, t), ", "))
	default:
		title = fmt.Sprintf("%s: clients %s both held the lock for %s", who, numbers(worst.Clients), Duration(float64(worst.To-worst.From)))
		if len(worst.Clients) > 2 {
			title = strings.Replace(title, "both held", "all held", 1)
		}
		switch lease.Verdict {
		case results.Holds:
			title += ", though the lock kept its lease"
		case results.Violated:
			title += ", because the lock broke its lease"
		}
	}
	times := c.Count("mutex")
	subtitle = fmt.Sprintf("Trial %d of %d, seed %d, lock key %s", t.N, len(c.Trials), t.Seed, tl.Key)
	if times.Violated > 0 {
		subtitle += fmt.Sprintf("; mutex broken in %d of %s judged", times.Violated, plural(times.Holds+times.Violated+times.Unknown, "trial", "trials"))
	}
	if tl.Cut {
		subtitle += ". Part of the trial, around the violation"
	}
	caption = "One lane per client. A bar is the time for which the client believed that it held the lock, from its acquire's return to its " +
		"release, the news of its loss or its death; the black mark is the end of its lease, and what follows it is belief without a lease. " +
		"The shaded column is the time with two holders at once; grey bars at the top are the faults."
	if tl.MoreSpans > 0 {
		caption += fmt.Sprintf(" %s not drawn.", plural(tl.MoreSpans, "further fault is", "further faults are"))
	}
	return title, subtitle + ".", caption, tl
}

func rowOf(c *results.Cell) row { return row{Lock: c.Lock, Guard: c.Guard} }

func violations(c *results.Cell, t *results.Trial) []string {
	var names []string
	for _, p := range t.Properties {
		if p.Verdict == results.Violated {
			names = append(names, propertyWord(c, p.Name))
		}
	}
	return names
}

// numbers joins 0, 1 and 2 the way people do.
func numbers(all []int) string {
	var b strings.Builder
	for i, n := range all {
		switch {
		case i == 0:
		case i == len(all)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// newTimeline picks the key with the longest overlap, or the first, and the part of
// the trial that fits a picture.
func newTimeline(t *results.Trial) timeline {
	end := int64(0)
	for _, h := range t.Holds {
		end = max(end, h.From, h.To)
	}
	for _, s := range t.Spans {
		end = max(end, s.From, s.To)
	}
	byKey := map[string][]results.Hold{}
	var keys []string
	for _, h := range t.Holds {
		if h.To < h.From { // never ended as far as the record goes
			h.To = end
		}
		if byKey[h.Key] == nil {
			keys = append(keys, h.Key)
		}
		byKey[h.Key] = append(byKey[h.Key], h)
	}
	var tl timeline
	for i, key := range keys {
		candidate := timeline{Key: key, Holds: byKey[key], Overlaps: overlaps(byKey[key])}
		if i == 0 || candidate.longest() > tl.longest() {
			tl = candidate
		}
	}
	tl.From, tl.To = 0, end
	slices.SortStableFunc(tl.Holds, func(a, b results.Hold) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Hold, b.Hold))
	})
	tl.focus()
	tl.Spans = slices.SortedStableFunc(slices.Values(t.Spans), func(a, b results.Span) int { return cmp.Compare(a.From, b.From) })
	for i := range tl.Spans {
		if s := &tl.Spans[i]; s.To < s.From { // never healed
			s.To = end
		}
	}
	tl.Spans = slices.DeleteFunc(tl.Spans, func(s results.Span) bool { return s.To < tl.From || s.From > tl.To })
	if len(tl.Spans) > maxSpans {
		tl.MoreSpans = len(tl.Spans) - maxSpans
		tl.Spans = tl.Spans[:maxSpans]
	}
	for _, h := range tl.Holds {
		if !slices.Contains(tl.Clients, h.Client) {
			tl.Clients = append(tl.Clients, h.Client)
		}
	}
	slices.Sort(tl.Clients)
	// Air on both sides, but none before the trial began.
	pad := max((tl.To-tl.From)/25, 1)
	tl.From, tl.To = max(0, tl.From-pad), tl.To+pad
	return tl
}

// overlaps sweeps over the holds of one key. A client that holds twice is one holder.
func overlaps(holds []results.Hold) []overlap {
	type edge struct {
		at     int64
		client int
		step   int
	}
	var edges []edge
	for _, h := range holds {
		if h.To <= h.From {
			continue // its end would sort before its start
		}
		edges = append(edges, edge{h.From, h.Client, 1}, edge{h.To, h.Client, -1})
	}
	// At the same moment an end comes first: intervals that only touch do not overlap.
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	holding := map[int]int{}
	var all []overlap
	var stretch int64 // length of the longest stretch of the current overlap
	for i, e := range edges {
		if holding[e.client] += e.step; holding[e.client] <= 0 {
			delete(holding, e.client)
		}
		if i+1 == len(edges) || len(holding) < 2 || edges[i+1].at == e.at {
			continue
		}
		next := edges[i+1].at
		if n := len(all); n == 0 || all[n-1].To != e.at {
			all = append(all, overlap{From: e.at})
			stretch = 0
		}
		o := &all[len(all)-1]
		o.To = next
		if next-e.at > stretch {
			stretch = next - e.at
			o.Clients = o.Clients[:0]
			for c := range holding {
				o.Clients = append(o.Clients, c)
			}
			slices.Sort(o.Clients)
		}
	}
	return all
}

// worst is the longest overlap, the first of equals; nil if there is none.
func (tl *timeline) worst() *overlap {
	var w *overlap
	for i := range tl.Overlaps {
		if o := &tl.Overlaps[i]; w == nil || o.To-o.From > w.To-w.From {
			w = o
		}
	}
	return w
}

func (tl *timeline) longest() int64 {
	if w := tl.worst(); w != nil {
		return w.To - w.From
	}
	return 0
}

// focus keeps the holds nearest to the worst overlap, or the first ones, where there
// are more than a picture can show.
func (tl *timeline) focus() {
	centre := int64(0)
	if w := tl.worst(); w != nil {
		centre = w.From + (w.To-w.From)/2
	}
	distance := func(h results.Hold) int64 { return max(h.From-centre, centre-h.To, 0) }
	near := slices.SortedStableFunc(slices.Values(tl.Holds), func(a, b results.Hold) int { return cmp.Compare(distance(a), distance(b)) })
	lanes := map[int]bool{}
	var kept []results.Hold
	for _, h := range near {
		if len(kept) == maxHolds || !lanes[h.Client] && len(lanes) == maxLanes {
			tl.Cut = true
			continue
		}
		lanes[h.Client] = true
		kept = append(kept, h)
	}
	if !tl.Cut {
		return
	}
	tl.Holds = kept
	tl.From, tl.To = math.MaxInt64, 0
	for _, h := range kept {
		tl.From, tl.To = min(tl.From, h.From), max(tl.To, h.To)
	}
	tl.Overlaps = overlaps(kept)
}

const laneHeight = vg.Length(30)

var (
	beliefBar = keyEntry{"believes it holds, lease valid", box(blue)}
	beyondBar = keyEntry{"believes it holds, lease over", box(orange)}
	leaseMark = keyEntry{"lease ends", func(c draw.Canvas, at vg.Point) { drawLeaseEnd(c, at.X, at.Y-5, at.Y+5) }}
	twoBar    = keyEntry{"two holders at once", func(c draw.Canvas, at vg.Point) {
		box(paleRed)(c, at)
		fillRect(c, vg.Rectangle{Min: vg.Point{X: at.X - 7, Y: at.Y + 1}, Max: vg.Point{X: at.X + 7, Y: at.Y + 4}}, vermillion)
	}}
	faultBar = keyEntry{"fault", box(gray)}
)

// rowNames are the lanes from the top: faults, the overlap, clients.
func (tl *timeline) rowNames() []string {
	var names []string
	for range tl.Spans {
		names = append(names, "fault")
	}
	if len(tl.Overlaps) > 0 {
		names = append(names, "two holders")
	}
	for _, c := range tl.Clients {
		names = append(names, fmt.Sprintf("client %d", c))
	}
	return names
}

func (tl *timeline) drawing(title, subtitle string) drawing {
	names := tl.rowNames()
	return drawing{
		title: title, subtitle: subtitle,
		key:    []keyEntry{beliefBar, beyondBar, leaseMark, twoBar, faultBar},
		height: laneHeight*vg.Length(len(names)) + 40,
		body: func(canvas draw.Canvas) {
			p := newPlot()
			p.X.Label.Text = "time since the trial's start (ms)"
			p.X.Min, p.X.Max = float64(tl.From)/1e6, float64(tl.To)/1e6
			p.X.Tick.Marker = msTicks{}
			lanes(p, names, true)
			p.Add(tl)
			p.Draw(canvas)
		},
	}
}

// msTicks puts six to twelve round marks on an axis in milliseconds.
type msTicks struct{}

func (msTicks) Ticks(from, to float64) []plot.Tick {
	step := niceStep((to - from) / 6)
	var ticks []plot.Tick
	for k := math.Ceil(from / step); k*step <= to; k++ {
		ticks = append(ticks, plot.Tick{Value: k * step, Label: number(math.Round(k*step*1e6) / 1e6)})
	}
	return ticks
}

// Plot implements plot.Plotter.
func (tl *timeline) Plot(canvas draw.Canvas, p *plot.Plot) {
	xms, y := p.Transforms(&canvas)
	x := func(ns int64) vg.Length {
		return min(max(xms(float64(ns)/1e6), canvas.Min.X), canvas.Max.X)
	}
	rows := len(tl.rowNames())
	lane := func(i int) vg.Length { return y(float64(rows - 1 - i)) }
	lanesTop := lane(len(tl.Spans)) + laneHeight/2

	for _, s := range tl.Spans {
		fillRect(canvas, vg.Rectangle{Min: vg.Point{X: x(s.From), Y: canvas.Min.Y}, Max: vg.Point{X: x(s.To), Y: canvas.Max.Y}}, paleGray)
	}
	for _, o := range tl.Overlaps {
		fillRect(canvas, vg.Rectangle{Min: vg.Point{X: x(o.From), Y: canvas.Min.Y}, Max: vg.Point{X: x(o.To), Y: lanesTop}}, paleRed)
	}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		canvas.StrokeLine2(line(rule, 0.5), xms(t.Value), canvas.Min.Y, xms(t.Value), canvas.Max.Y)
	}
	row := 0
	for _, s := range tl.Spans {
		text := s.Text
		if s.Node != "" {
			text += " (" + s.Node + ")"
		}
		labelledBar(canvas, x(s.From), x(s.To), lane(row), 7, gray, text)
		row++
	}
	if len(tl.Overlaps) > 0 {
		w := tl.worst()
		for i := range tl.Overlaps {
			o := &tl.Overlaps[i]
			text := ""
			if o.From == w.From {
				text = Duration(float64(o.To - o.From))
			}
			labelledBar(canvas, x(o.From), x(o.To), lane(row), 5, vermillion, text)
		}
		row++
	}
	for i := row; i < rows; i++ {
		canvas.StrokeLine2(line(rule, 0.6), canvas.Min.X, lane(i)-laneHeight/2, canvas.Max.X, lane(i)-laneHeight/2)
	}
	for _, h := range tl.Holds {
		tl.drawHold(canvas, x, lane(row+slices.Index(tl.Clients, h.Client)), h)
	}
}

func (tl *timeline) drawHold(canvas draw.Canvas, x func(int64) vg.Length, at vg.Length, h results.Hold) {
	const half = vg.Length(8)
	from, to := x(h.From), max(x(h.To), x(h.From)+1.5)
	turn := to
	if h.Lease != 0 && h.Lease < h.To {
		turn = max(x(h.Lease), from)
	}
	fillRect(canvas, vg.Rectangle{Min: vg.Point{X: from, Y: at - half}, Max: vg.Point{X: turn, Y: at + half}}, blue)
	if turn < to {
		fillRect(canvas, vg.Rectangle{Min: vg.Point{X: turn, Y: at - half}, Max: vg.Point{X: to, Y: at + half}}, orange)
	}
	if h.Lease > tl.From && h.Lease < tl.To {
		drawLeaseEnd(canvas, x(h.Lease), at-half-3, at+half+3)
	}
	name := fmt.Sprintf("hold %d", h.Hold)
	style := boldStyle(8, color.White)
	if style.Width(name)+8 <= turn-from {
		canvas.FillText(style, vg.Point{X: from + 4, Y: at - 3}, name)
	}
}

func drawLeaseEnd(canvas draw.Canvas, x, low, high vg.Length) {
	canvas.StrokeLine2(line(ink, 1.6), x, low, x, high)
	canvas.FillPolygon(ink, []vg.Point{{X: x - 3, Y: high + 1}, {X: x + 3, Y: high + 1}, {X: x, Y: high - 4}})
}

// labelledBar draws a thin bar with its text within, to the right or to the left of
// it, wherever it fits; shortened if it fits nowhere.
func labelledBar(canvas draw.Canvas, from, to, at, half vg.Length, fill color.Color, text string) {
	to = max(to, from+2)
	fillRect(canvas, vg.Rectangle{Min: vg.Point{X: from, Y: at - half}, Max: vg.Point{X: to, Y: at + half}}, fill)
	if text == "" {
		return
	}
	within, beside := boldStyle(8.5, color.White), textStyle(8.5, ink)
	left, right := from-canvas.Min.X-8, canvas.Max.X-to-8
	inside := to - from - 8
	switch {
	case within.Width(text) <= inside || inside >= max(left, right):
		canvas.FillText(within, vg.Point{X: from + 4, Y: at - 3}, shorten(within, text, inside))
	case beside.Width(text) <= right || right >= left:
		canvas.FillText(beside, vg.Point{X: to + 5, Y: at - 3}, shorten(beside, text, right))
	default:
		text = shorten(beside, text, left)
		canvas.FillText(beside, vg.Point{X: from - 5 - beside.Width(text), Y: at - 3}, text)
	}
}
