package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"lockstress/results"
)

// TableOptions say what the terminal can show.
type TableOptions struct {
	Width int  // columns; 0 means 120
	Color bool // ANSI colours; the signs tell the same without them
	ASCII bool // no character beyond ASCII in what the table itself adds
}

const (
	labelWidth   = 20 // of the column of locks
	minCellWidth = 17
	maxCellWidth = 24
	cellFrame    = 3 // a border and the spaces on both sides
)

// Table writes the verdict matrix for a terminal: a row per lock, a column per
// scenario, then what the signs mean and the footnotes. Scenarios that do not fit
// side by side continue in a further table.
func Table(w io.Writer, run *results.Run, opts TableOptions) error {
	if opts.Width <= 0 {
		opts.Width = 120
	}
	m := newMatrix(run)
	var notes footnotes
	var out strings.Builder
	say := func(line string, indent int) {
		fmt.Fprintln(&out, strings.Join(wrap(line, opts.Width, indent), "\n"))
	}
	say(about(run), 2)
	if !run.Complete {
		say("! "+interrupted, 2)
	}
	room := (opts.Width - labelWidth - cellFrame - 1)
	side := min(max(1, room/(minCellWidth+cellFrame)), max(1, len(m.Scenarios)))
	cell := min(maxCellWidth, max(minCellWidth, room/side-cellFrame))
	for from := 0; from < len(m.Scenarios); from += side {
		to := min(from+side, len(m.Scenarios))
		fmt.Fprintln(&out, block(run, m, from, to, cell, &notes, opts))
	}
	if len(m.Rows) == 0 {
		fmt.Fprintln(&out, "Nothing was run.")
	}
	for _, line := range legend {
		say(line, 2)
	}
	for i, note := range notes.texts {
		say(fmt.Sprintf("[%d] %s", i+1, oneLine(note)), 4)
	}
	shown := out.String()
	if opts.ASCII {
		shown = ascii.Replace(shown)
	}
	_, err := io.WriteString(w, shown)
	return err
}

// ascii replaces one column by one column, so that nothing moves.
var ascii = strings.NewReplacer(
	"✓", "+", "✗", "X", "○", "o", "–", "-", "·", "|", "−", "-", "µ", "u", "×", "x",
	"─", "-", "│", "|", "┌", "+", "┬", "+", "┐", "+", "├", "+", "┼", "+", "┤", "+", "└", "+", "┴", "+", "┘", "+",
)

// block renders the scenarios from … to-1.
func block(run *results.Run, m matrix, from, to, width int, notes *footnotes, opts TableOptions) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateRows = true
	header := table.Row{"lock"}
	for _, s := range m.Scenarios[from:to] {
		header = append(header, strings.Join(wrap(s, width, 0), "\n"))
	}
	t.AppendHeader(header)
	for _, r := range m.Rows {
		line := table.Row{strings.Join(wrap(r.Label(), labelWidth, 2), "\n")}
		empty := true
		for _, i := range r.Cells[from:to] {
			empty = empty && i < 0
			line = append(line, cellText(judge(cellAt(run, i)), width, notes, opts.Color))
		}
		if !empty {
			t.AppendRow(line)
		}
	}
	return t.Render()
}

func cellText(o outcome, width int, notes *footnotes, color bool) string {
	var lines []string
	for _, c := range o.Clauses {
		first := string(c.Mark) + " " + c.Text
		if n := notes.number(c.Note); n > 0 {
			first += fmt.Sprintf(" [%d]", n)
		}
		said := wrap(first, width, 2)
		if c.Detail != "" {
			for _, l := range wrap(c.Detail, width-2, 0) {
				said = append(said, "  "+l)
			}
		}
		for _, l := range said {
			if color {
				l = text.Escape(l, clauseColor(c).EscapeSeq())
			}
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

func clauseColor(c clause) text.Colors {
	switch {
	case c.Grave:
		return text.Colors{text.Bold, text.FgRed}
	case c.Mark == markBroken:
		return text.Colors{text.FgMagenta}
	case c.Mark == markHolds:
		return text.Colors{text.FgGreen}
	case c.Mark == markNothing:
		return text.Colors{text.Faint}
	}
	return text.Colors{text.FgYellow}
}

// wrap breaks a line at spaces into lines of at most width columns, all but the
// first indented by indent. A word that is too long is broken after a joint in it
// ("/", "_", "-", ":"), or where it must be.
func wrap(line string, width, indent int) []string {
	width = max(width, indent+4)
	var lines []string
	current := ""
	flush := func() {
		lines = append(lines, strings.TrimRight(current, " "))
		current = strings.Repeat(" ", indent)
	}
	for _, word := range strings.SplitAfter(line, " ") {
		if text.StringWidth(current+strings.TrimRight(word, " ")) > width && strings.TrimSpace(current) != "" {
			flush()
		}
		for text.StringWidth(current+strings.TrimRight(word, " ")) > width {
			head := fitting(word, width-text.StringWidth(current))
			current += head
			word = word[len(head):]
			flush()
		}
		current += word
	}
	return append(lines, strings.TrimRight(current, " "))
}

// fitting cuts the longest start of a word that fits, after a joint if there is one.
func fitting(word string, width int) string {
	end, joint := 0, 0
	for i, r := range word {
		next := i + len(string(r))
		if text.StringWidth(word[:next]) > width && end > 0 {
			break
		}
		end = next
		if strings.ContainsRune("/_-:", r) {
			joint = next
		}
	}
	if joint > 0 {
		return word[:joint]
	}
	return word[:end]
}
