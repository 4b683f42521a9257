// Package reports turns a run into what people read: the terminal table, a Markdown
// table, plots, and one self-contained page. Everything here is a function of the
// run alone: the same results give the same bytes.
//
// The verdict on a cell is careful by rule. A cell holds only if every property that
// applies held in every trial that tested it; "unknown" and "not exercised" are
// shown as what they are and never as a pass.
package reports
