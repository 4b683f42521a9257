package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstress/impls"
	"lockstress/workload"
)

func TestFind(t *testing.T) {
	names := func(list []Scenario) (all []string) {
		for _, s := range list {
			all = append(all, s.Name)
		}
		return all
	}
	for name, want := range map[string][]string{
		"gc_pause":              {"gc_pause"}, // not its mode
		"gc_pause/acquiring":    {"gc_pause/acquiring"},
		"partition":             {"partition/minority", "partition/majority", "partition/holder"},
		Everything:              names(All()),
		"thundering_herd/fixed": {"thundering_herd/fixed"},
	} {
		found, err := Find(name)
		if err != nil || !slices.Equal(names(found), want) {
			t.Errorf("Find(%q) = %v, %v; want %v", name, names(found), err, want)
		}
	}
	if _, err := Find("gc_paus"); err == nil || !strings.Contains(err.Error(), "gc_pause/acquiring") {
		t.Errorf("an unknown name is answered %v, which does not list the known ones", err)
	}
}

func TestScenariosAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if seen[s.Name] {
			t.Errorf("%s is listed twice", s.Name)
		}
		seen[s.Name] = true
		if s.Summary == "" || s.Timeline == "" || s.Play == nil {
			t.Errorf("%s lacks a summary, a timeline or a play", s.Name)
		}
		applies := 0
		for _, l := range impls.All() {
			for _, w := range workload.All() {
				c := Cell{Lock: l, Workload: w, TTL: 500 * time.Millisecond, Clients: Actors}
				if s.Skip(c) == "" {
					applies++
				}
			}
			if s.Topology(l) == "" {
				t.Errorf("%s has no servers for %s", s.Name, l.Name)
			}
		}
		if applies == 0 {
			t.Errorf("%s applies to nothing", s.Name)
		}
	}
	for _, s := range Usual() {
		if s.Extra {
			t.Errorf("%s is extra, and played unasked", s.Name)
		}
	}
	if len(Usual()) == len(All()) {
		t.Error("nothing is extra")
	}
}
