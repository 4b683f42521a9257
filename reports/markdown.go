package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"lockstress/results"
)

// Markdown writes the verdict matrix as a GitHub-flavoured Markdown table with its
// legend and footnotes, for a README or the log of a CI job.
func Markdown(w io.Writer, run *results.Run) error {
	m := newMatrix(run)
	var notes footnotes
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n", markdown.Replace(about(run)))
	if !run.Complete {
		fmt.Fprintf(&out, "**%s**\n\n", interrupted)
	}
	if len(m.Rows) == 0 {
		fmt.Fprint(&out, "Nothing was run.\n\n")
	} else {
		fmt.Fprintf(&out, "%s\n\n", markdownTable(run, m, &notes))
	}
	for _, line := range legend {
		fmt.Fprintf(&out, "- %s\n", markdown.Replace(line))
	}
	for i, note := range notes.texts {
		fmt.Fprintf(&out, "- [%d] %s\n", i+1, markdown.Replace(oneLine(note)))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func markdownTable(run *results.Run, m matrix, notes *footnotes) string {
	t := table.NewWriter()
	header := table.Row{"lock"}
	for _, s := range m.Scenarios {
		header = append(header, markdown.Replace(s))
	}
	t.AppendHeader(header)
	for _, r := range m.Rows {
		line := table.Row{"**" + markdown.Replace(r.Label()) + "**"}
		for _, i := range r.Cells {
			var parts []string
			for _, c := range judge(cellAt(run, i)).Clauses {
				said := string(c.Mark) + " " + markdown.Replace(c.Text)
				if c.Grave {
					said = "**" + said + "**"
				}
				if c.Detail != "" {
					said += " (" + markdown.Replace(c.Detail) + ")"
				}
				if n := notes.number(c.Note); n > 0 {
					said += fmt.Sprintf(" [%d]", n)
				}
				parts = append(parts, said)
			}
			line = append(line, strings.Join(parts, "\n")) // a break within the cell
		}
		t.AppendRow(line)
	}
	return t.RenderMarkdown()
}

// markdown escapes what Markdown or HTML would take for markup. Underscores within
// words are none in GitHub's dialect.
var markdown = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", `\*`, "`", "\\`", "[", `\[`, "]", `\]`)

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
