package reports

import (
	"testing"

	"lockstress/results"
)

func TestDuration(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "0 s", 1: "1 ns", 999.4: "999 ns", 999.6: "1 µs", 85_300: "85.3 µs", 512e6: "512 ms", 1.25e9: "1.25 s",
		999_499_999: "999 ms", 999_500_000: "1 s", 9.996e9: "10 s", 119e9: "119 s", 200e9: "3 min 20 s", 7500e9: "2 h 5 min", -2e6: "−2 ms",
	} {
		if got := Duration(ns); got != want {
			t.Errorf("Duration(%v) = %q, want %q", ns, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		name         string
		v            float64
		label, value string
	}{
		{"overlap_ns", 5.12e8, "overlap", "512 ms"},
		{"belief_gap_ns", 0, "belief gap", "0 s"},
		{"oversold_units", 12345, "oversold", "12,345 units"},
		{"lost_updates", 3, "lost", "3 updates"},
		{"overlaps", 3, "overlaps", "3"},
		{"jain_index", 0.987654, "jain index", "0.988"},
		{"commands_per_acquire", 2.5, "commands per acquire", "2.5"},
		{"loss_percent", 0.5, "loss", "0.5 %"},
		{"_ns", 7, " ns", "7"},
		{"", 7, "", "7"},
	} {
		if label, value := Figure(c.name, c.v); label != c.label || value != c.value {
			t.Errorf("Figure(%q, %v) = %q, %q; want %q, %q", c.name, c.v, label, value, c.label, c.value)
		}
	}
}

func TestOverTrials(t *testing.T) {
	trial := func(exercised bool, v results.Verdict, figure string, value float64) results.Trial {
		return results.Trial{Exercised: exercised, Properties: []results.Property{
			{Name: "mutex", Verdict: v, Figures: map[string]float64{figure: value}},
		}}
	}
	c := &results.Cell{Trials: []results.Trial{
		trial(true, results.Violated, "overlap_ns", 1e6), trial(true, results.Violated, "overlap_ns", 3e6),
		trial(false, results.Holds, "overlap_ns", 9e9), {Error: "broken"},
		trial(true, results.Violated, "overlaps", 1), trial(false, results.Violated, "overlaps", 4),
	}}
	if _, got := overTrials(c, "mutex", "overlap_ns"); got != "2 ms, max 3 ms" {
		t.Errorf("times: got %q", got)
	}
	if _, got := overTrials(c, "mutex", "overlaps"); got != "5" {
		t.Errorf("counts: got %q, want the sum, with the violation seen in an idle trial", got)
	}
	if _, got := overTrials(c, "lease", "overlaps"); got != "" {
		t.Errorf("a figure nobody has: got %q", got)
	}
}
