package runner

import (
	"strings"
	"testing"
	"time"
)

func plain() Options {
	return Options{Trials: 1, Seed: 1, TTL: 500 * time.Millisecond, Workers: 2, Parallel: 1}
}

func TestPlanOfEverything(t *testing.T) {
	cells, err := Plan(plain())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for i := range cells {
		c := &cells[i]
		if names[c.Name()] {
			t.Errorf("%s is planned twice", c.Name())
		}
		names[c.Name()] = true
		if c.Guard.Fenced && !c.Lock.Fences {
			t.Errorf("%s: nobody asked for a guard that cannot work", c.Name())
		}
		if c.TTL < c.Scenario.MinTTL {
			t.Errorf("%s: TTL %v is below the scenario's least, %v", c.Name(), c.TTL, c.Scenario.MinTTL)
		}
	}
	for _, want := range []string{"token_none_gc_pause_stock", "fenced_fenced_gc_pause_stock", "redlock_none_failover-promote_stock"} {
		if !names[want] {
			t.Errorf("%s is not planned", want)
		}
	}
}

// What was asked for and cannot be run is there, with the reason.
func TestPlanSkipsWithAReason(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"needs fencing tokens": func(o *Options) { o.Locks, o.Guards = []string{"token"}, []string{"fenced"} },
		"nothing to judge":     func(o *Options) { o.Locks, o.Workloads = []string{"none"}, []string{"lock"} },
		"no lock":              func(o *Options) { o.Locks, o.Scenarios = []string{"none"}, []string{"gc_pause"} },
		"independent servers":  func(o *Options) { o.Locks, o.Scenarios = []string{"redlock"}, []string{"failover/sentinel"} },
		"no resource to guard": func(o *Options) {
			o.Locks, o.Guards, o.Workloads = []string{"fenced"}, []string{"fenced"}, []string{"lock"}
		},
	} {
		o := plain()
		change(&o)
		cells, err := Plan(o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cells {
			if !strings.Contains(cells[i].Skipped, name) {
				t.Errorf("%s: skipped for %q, want %q in it", cells[i].Name(), cells[i].Skipped, name)
			}
		}
	}
}

func TestPlanNamesAllThatIsWrong(t *testing.T) {
	o := plain()
	o.Locks, o.Scenarios, o.Trials = []string{"tokn", "redlok"}, []string{"pause"}, 0
	_, err := Plan(o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"tokn", "redlok", "pause", "--trials 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestTrialSeeds(t *testing.T) {
	seen := map[int64]bool{}
	for _, seed := range []int64{1, 2} {
		for _, cell := range []string{"a", "b"} {
			for n := range 100 {
				s := trialSeed(seed, cell, n)
				if s < 0 || seen[s] {
					t.Fatalf("seed %d of %d/%s/%d is negative or taken", s, seed, cell, n)
				}
				seen[s] = true
				if s != trialSeed(seed, cell, n) {
					t.Fatal("the same trial has two seeds")
				}
			}
		}
	}
}

func TestHosts(t *testing.T) {
	cells, err := Plan(plain())
	if err != nil {
		t.Fatal(err)
	}
	for i := range cells {
		c := &cells[i]
		var slots int
		for _, host := range c.hosts() {
			slots += len(host)
			if !c.Scenario.Crowd && len(host) != 1 {
				t.Errorf("%s: a worker hosts clients %v; a pause of one would stop the others", c.Name(), host)
			}
		}
		if slots != c.Clients {
			t.Errorf("%s: %d clients in workers, want %d", c.Name(), slots, c.Clients)
		}
	}
}
