package reports

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours by Okabe and Ito (jfly.uni-koeln.de/color), told apart with every common
// kind of colour blindness, and by lightness in print.
var (
	blue       = color.RGBA{0x00, 0x72, 0xB2, 0xFF}
	orange     = color.RGBA{0xE6, 0x9F, 0x00, 0xFF}
	vermillion = color.RGBA{0xD5, 0x5E, 0x00, 0xFF}
	green      = color.RGBA{0x00, 0x9E, 0x73, 0xFF}
	sky        = color.RGBA{0x56, 0xB4, 0xE9, 0xFF}
	purple     = color.RGBA{0xCC, 0x79, 0xA7, 0xFF}
	ink        = color.RGBA{0x22, 0x22, 0x22, 0xFF}
	faint      = color.RGBA{0x66, 0x66, 0x66, 0xFF}
	rule       = color.RGBA{0xDD, 0xDD, 0xDD, 0xFF}
	paleGray   = color.RGBA{0xEC, 0xEC, 0xEC, 0xFF}
	gray       = color.RGBA{0x8A, 0x8A, 0x8A, 0xFF}
	paleRed    = color.RGBA{0xFA, 0xDD, 0xCB, 0xFF}
)

// lineColors of locks drawn together; dashes tell them apart as well.
var lineColors = []color.Color{blue, vermillion, green, ink, orange, purple, sky, gray}

var lineDashes = [][]vg.Length{nil, {6, 2}, {2, 2}, {8, 2, 2, 2}, {10, 3}, {4, 1.5}, {1, 1.5}, {6, 2, 1, 2, 1, 2}}

// textStyle is the sans-serif face that gonum brings along.
func textStyle(size vg.Length, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign:  draw.XLeft,
		YAlign:  draw.YBottom,
		Handler: plot.DefaultTextHandler,
	}
}

func boldStyle(size vg.Length, c color.Color) text.Style {
	s := textStyle(size, c)
	s.Font.Weight = xfont.WeightBold
	return s
}

// newPlot is an empty plot in the look of all the others.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color = gray
		axis.Width = 0.6
		axis.Padding = 0
		axis.Label.TextStyle.Font = textStyle(9, ink).Font
		axis.Label.Padding = 4
		axis.Tick.Label.Font = textStyle(8.5, ink).Font
		axis.Tick.Label.Color = ink
		axis.Tick.Color = gray
		axis.Tick.Width = 0.6
		axis.Tick.Length = 3
	}
	return p
}
