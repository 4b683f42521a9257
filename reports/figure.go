package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockstress/results"
)

// Duration writes nanoseconds for people, to three digits: "0 s", "85.3 µs",
// "512 ms", "1.25 s", "3 min 20 s".
func Duration(ns float64) string {
	if ns < 0 {
		return "−" + Duration(-ns)
	}
	// A unit is left once three digits would round up to 1000 of it.
	switch {
	case ns == 0:
		return "0 s"
	case ns < 999.5:
		return digits(ns) + " ns"
	case ns < 999.5e3:
		return digits(ns/1e3) + " µs"
	case ns < 999.5e6:
		return digits(ns/1e6) + " ms"
	case ns < 120e9:
		return digits(ns/1e9) + " s"
	}
	seconds := int64(math.Round(ns / 1e9))
	if seconds < 2*3600 {
		return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%d h %d min", seconds/3600, seconds%3600/60)
}

// digits writes v ≥ 0 with three significant digits and no idle zeros.
func digits(v float64) string {
	decimals := 2
	switch {
	case v >= 99.95:
		decimals = 0
	case v >= 9.995:
		decimals = 1
	case v < 0.995 && v > 0:
		decimals = min(12, 2-int(math.Floor(math.Log10(v))))
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Figure names and writes a figure by the unit its name ends in: overlap_ns and
// 5.12e8 give "overlap" and "512 ms"; oversold_units and 20 give "oversold" and
// "20 units"; overlaps and 3 stay what they are.
func Figure(name string, v float64) (label, value string) {
	stem, unit := name, ""
	if i := strings.LastIndexByte(name, '_'); i > 0 {
		stem, unit = name[:i], name[i+1:]
	}
	switch unit {
	case "ns":
		value = Duration(v)
	case "units", "bytes", "updates":
		value = number(v) + " " + unit
	case "percent":
		value = number(v) + " %"
	default:
		stem, value = name, number(v)
	}
	return strings.ReplaceAll(stem, "_", " "), value
}

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return thousands(int64(v))
	}
	if v < 0 {
		return "−" + digits(-v)
	}
	return digits(v)
}

// thousands groups digits: 12,345.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// counted tells whether adding up a figure over trials means something: events,
// units and updates add up; times, ratios and rates do not.
func counted(name string) bool {
	for _, suffix := range []string{"_ns", "_percent", "_ratio", "_index", "_fairness"} {
		if strings.HasSuffix(name, suffix) {
			return false
		}
	}
	return !strings.Contains(name, "_per_")
}

// values collects a figure over the trials that have it.
func values(c *results.Cell, property, figure string) []float64 {
	var all []float64
	for i := range c.Trials {
		t := &c.Trials[i]
		if t.Error != "" {
			continue
		}
		p, _ := t.Property(property)
		// What an idle trial measured says nothing, unless it broke all the same.
		if v, ok := p.Figures[figure]; ok && (t.Exercised || p.Verdict == results.Violated) {
			all = append(all, v)
		}
	}
	return all
}

// figureNames lists the figures of a property in any trial of the cell, sorted.
func figureNames(c *results.Cell, property string) []string {
	var names []string
	for i := range c.Trials {
		p, _ := c.Trials[i].Property(property)
		for name := range p.Figures {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// overTrials sums a figure up for people: counts are added, the rest is given as
// median and maximum. "" if no trial has it.
func overTrials(c *results.Cell, property, figure string) (label, value string) {
	all := values(c, property, figure)
	if len(all) == 0 {
		return "", ""
	}
	if counted(figure) {
		var sum float64
		for _, v := range all {
			sum += v
		}
		return Figure(figure, sum)
	}
	label, value = Figure(figure, median(all))
	if _, most := Figure(figure, slices.Max(all)); most != value {
		value += ", max " + most
	}
	return label, value
}

// median of at least one value; the mean of the middle two if their number is even.
func median(all []float64) float64 {
	s := slices.SortedFunc(slices.Values(all), cmp.Compare[float64])
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(int64(n)) + " " + many
}
