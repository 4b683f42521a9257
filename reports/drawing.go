package reports

import (
	"bytes"
	"image/color"
	"image/png"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	drawingWidth = vg.Length(750) // points: 1000 CSS pixels
	drawingDPI   = 144            // 1500 pixels of PNG, sharp on dense screens
	margin       = vg.Length(12)
)

// drawing is a titled picture: title, subtitle and key stand above the body, each
// with room of its own, so that no text lies on another.
type drawing struct {
	title, subtitle string
	key             []keyEntry
	height          vg.Length // of the body
	body            func(draw.Canvas)
}

// keyEntry explains one colour or sign.
type keyEntry struct {
	text string
	// sign draws into a box 16 points wide and 8 high, centred on at.
	sign func(c draw.Canvas, at vg.Point)
}

var (
	titleStyle    = boldStyle(13, ink)
	subtitleStyle = textStyle(9.5, faint)
	keyStyle      = textStyle(9, ink)
)

const (
	titleLine    = vg.Length(17)
	subtitleLine = vg.Length(13)
	keyLine      = vg.Length(15)
	signWidth    = vg.Length(16)
)

// png and svg render the drawing; the same drawing gives the same bytes.
func (d drawing) png() ([]byte, error) {
	c := vgimg.NewWith(vgimg.UseWH(drawingWidth, d.size()), vgimg.UseDPI(drawingDPI))
	d.draw(draw.New(c))
	var b bytes.Buffer
	err := png.Encode(&b, c.Image())
	return b.Bytes(), err
}

func (d drawing) svg() ([]byte, error) {
	c := vgsvg.New(drawingWidth, d.size())
	d.draw(draw.New(c))
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	// Where the font is not installed, one of the same widths takes its place.
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), err
}

func (d drawing) size() vg.Length { return d.head() + d.height + margin }

// head is the height of everything above the body.
func (d drawing) head() vg.Length {
	room := drawingWidth - 2*margin
	h := margin + titleLine*vg.Length(len(fold(titleStyle, d.title, room)))
	if d.subtitle != "" {
		h += subtitleLine * vg.Length(len(fold(subtitleStyle, d.subtitle, room)))
	}
	if len(d.key) > 0 {
		h += 4 + keyLine*vg.Length(len(d.keyRows(room)))
	}
	return h + 8
}

func (d drawing) draw(c draw.Canvas) {
	fillRect(c, c.Rectangle, color.White)
	room := c.Max.X - c.Min.X - 2*margin
	x, y := c.Min.X+margin, c.Max.Y-margin
	for _, line := range fold(titleStyle, d.title, room) {
		c.FillText(titleStyle, vg.Point{X: x, Y: y - 12}, line)
		y -= titleLine
	}
	if d.subtitle != "" {
		for _, line := range fold(subtitleStyle, d.subtitle, room) {
			c.FillText(subtitleStyle, vg.Point{X: x, Y: y - 9}, line)
			y -= subtitleLine
		}
	}
	if len(d.key) > 0 {
		y -= 4
		for _, entries := range d.keyRows(room) {
			at := x
			for _, e := range entries {
				e.sign(c, vg.Point{X: at + signWidth/2, Y: y - keyLine/2})
				c.FillText(keyStyle, vg.Point{X: at + signWidth + 4, Y: y - keyLine/2 - 3}, e.text)
				at += e.width()
			}
			y -= keyLine
		}
	}
	d.body(draw.Crop(c, margin, -margin, margin, y-8-c.Max.Y))
}

func (e keyEntry) width() vg.Length { return signWidth + 4 + keyStyle.Width(e.text) + 14 }

// keyRows breaks the key into lines that fit.
func (d drawing) keyRows(room vg.Length) [][]keyEntry {
	var rows [][]keyEntry
	used := room
	for _, e := range d.key {
		if used+e.width() > room {
			rows, used = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], e)
		used += e.width()
	}
	return rows
}

// fold breaks a text into lines no wider than room, at spaces, or after a joint of a
// word that is too long for a line.
func fold(style text.Style, s string, room vg.Length) []string {
	var lines []string
	current := ""
	for _, word := range strings.Fields(s) {
		if current != "" && style.Width(current+" "+word) <= room {
			current += " " + word
			continue
		}
		if current != "" {
			lines = append(lines, current)
		}
		for style.Width(word) > room && len(word) > 1 {
			cut := longest(word, func(head string) bool { return style.Width(head) <= room })
			if joint := strings.LastIndexAny(word[:cut], "/_-:"); joint > 0 {
				cut = joint + 1
			}
			lines, word = append(lines, word[:cut]), word[cut:]
		}
		current = word
	}
	return append(lines, current)
}

// longest returns the length in bytes of the longest start of s that fits, at least
// one character.
func longest(s string, fits func(string) bool) int {
	end := 0
	for i, r := range s {
		next := i + len(string(r))
		if end > 0 && !fits(s[:min(next, len(s))]) {
			break
		}
		end = min(next, len(s))
	}
	return end
}

// shorten cuts a text to fit, with an ellipsis in its middle: names of a kind differ
// at their ends as often as at their starts.
func shorten(style text.Style, s string, room vg.Length) string {
	if style.Width(s) <= room {
		return s
	}
	runes := []rune(s)
	for keep := len(runes) - 1; keep > 0; keep-- {
		head := (keep + 1) / 2
		short := strings.TrimSpace(string(runes[:head])) + "…" + strings.TrimSpace(string(runes[len(runes)-keep+head:]))
		if style.Width(short) <= room {
			return short
		}
	}
	return "…"
}

// fillText writes with paper behind the letters, so that no line of a grid runs
// through them.
func fillText(c draw.Canvas, style text.Style, at vg.Point, s string) {
	fillRect(c, vg.Rectangle{
		Min: vg.Point{X: at.X - 1, Y: at.Y - 1}, Max: vg.Point{X: at.X + 1 + style.Width(s), Y: at.Y + style.Font.Size},
	}, color.White)
	c.FillText(style, at, s)
}

func fillRect(c draw.Canvas, r vg.Rectangle, fill color.Color) {
	c.FillPolygon(fill, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
}

// box is the sign of a bar in a key.
func box(fill color.Color) func(draw.Canvas, vg.Point) {
	return func(c draw.Canvas, at vg.Point) {
		fillRect(c, vg.Rectangle{Min: vg.Point{X: at.X - 7, Y: at.Y - 4}, Max: vg.Point{X: at.X + 7, Y: at.Y + 4}}, fill)
	}
}

// glyph is the sign of a point in a key.
func glyph(style draw.GlyphStyle) func(draw.Canvas, vg.Point) {
	return func(c draw.Canvas, at vg.Point) { c.DrawGlyphNoClip(style, at) }
}

// stroke is the sign of a line in a key.
func stroke(style draw.LineStyle) func(draw.Canvas, vg.Point) {
	return func(c draw.Canvas, at vg.Point) {
		c.StrokeLine2(style, at.X-signWidth/2, at.Y, at.X+signWidth/2, at.Y)
	}
}

func line(c color.Color, width vg.Length, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: dashes}
}

// drawPanels draws plots side by side with data areas of the same size, each below
// its title. Titles have the same number of lines.
func drawPanels(c draw.Canvas, panels []*plot.Plot, titles [][]string) {
	style := boldStyle(9, ink)
	lines := 0
	for _, t := range titles {
		lines = max(lines, len(t))
	}
	head := panelLine*vg.Length(lines) + 4
	// gonum's Align starts from tiles of equal size, and goes wrong where the labels
	// of the first take most of its tile: so every panel gets what it needs around
	// its data, and the data areas share the rest.
	below := draw.Crop(c, 0, 0, 0, -head)
	left := make([]vg.Length, len(panels))
	right := make([]vg.Length, len(panels))
	room := below.Max.X - below.Min.X - panelGap*vg.Length(len(panels)-1)
	for i, p := range panels {
		data := p.DataCanvas(below)
		left[i], right[i] = data.Min.X-below.Min.X, below.Max.X-data.Max.X
		room -= left[i] + right[i]
	}
	x := below.Min.X
	for i, p := range panels {
		tile := below
		tile.Min.X, tile.Max.X = x, x+left[i]+room/vg.Length(len(panels))+right[i]
		x = tile.Max.X + panelGap
		p.Draw(tile)
		data := p.DataCanvas(tile)
		for k, l := range titles[i] {
			y := data.Max.Y + 6 + panelLine*vg.Length(len(titles[i])-1-k)
			c.FillText(style, vg.Point{X: data.Center().X - style.Width(l)/2, Y: y}, l)
		}
	}
}

const panelGap = vg.Length(10)

const panelLine = vg.Length(11)

// lanes labels the rows of a plot, from the top, on its vertical axis.
func lanes(p *plot.Plot, labels []string, shown bool) {
	p.Y.Min, p.Y.Max = -0.5, float64(len(labels))-0.5
	p.Y.Tick.Length = 0
	var ticks plot.ConstantTicks
	for i, l := range labels {
		t := plot.Tick{Value: float64(len(labels) - 1 - i), Label: " "}
		if shown {
			t.Label = shorten(p.Y.Tick.Label, l, maxLabel)
		}
		ticks = append(ticks, t)
	}
	p.Y.Tick.Marker = ticks
}

const maxLabel = vg.Length(170)
