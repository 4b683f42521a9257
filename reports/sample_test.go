package reports

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"lockstress/results"
)

var update = flag.Bool("update", false, "rewrite the golden files and testdata/results.json")

const (
	ms       = int64(time.Millisecond)
	sampleN  = 6
	sampleSU = 500 * ms // TTL
)

// sampleRun is a run as the harness would write it, one cell at least for everything
// a report must be able to say. Its figures are invented, but possible.
func sampleRun() *results.Run {
	rng := rand.New(rand.NewPCG(42, 1))
	run := &results.Run{
		Schema:   results.Schema,
		Started:  time.Date(2025, 3, 14, 9, 26, 53, 0, time.UTC),
		Finished: time.Date(2025, 3, 14, 9, 31, 12, 0, time.UTC),
		Complete: true,
		Command:  []string{"stress", "bench", "--trials", "6", "--note", "before <release>"},
		Seed:     42,
		TTL:      time.Duration(sampleSU),
		Versions: map[string]string{
			"redis": "7.0.15", "go": "go1.26.0", "stress": "v0.3.0", "os": "Debian GNU/Linux 12",
			"go-redis": "v9.23.0", "redsync": "v4.18.1", "toxiproxy": "v2.12.0",
		},
		Machine: results.Machine{OS: "linux", Arch: "amd64", CPU: "Some CPU @ 2.50GHz", Cores: 2, Memory: 8 << 30},
	}
	type lock struct {
		name, family, guard string
		speed               float64 // of an uncontended acquire, in milliseconds
	}
	locks := []lock{
		{"none", "control", "none", 0},
		{"naive", "naive", "none", 0.065},
		{"token", "token", "none", 0.09},
		{"token", "token", "conditional", 0.09},
		{"watchdog", "token", "none", 0.11},
		{"fenced", "token", "fenced", 0.1},
		{"redlock", "redlock", "none", 0.6},
		{"redsync", "library", "none", 0.4},
		{"exec:node adapters/redlock-five-nodes.js", "external", "none", 1.4},
	}
	for _, l := range locks {
		add := func(scenario, workload, topology string, make func(t *results.Trial)) *results.Cell {
			c := results.Cell{
				Lock: l.name, Family: l.family, Guard: l.guard, Scenario: scenario, Workload: workload, Topology: topology,
			}
			for n := 1; n <= sampleN; n++ {
				t := results.Trial{
					N: n, Seed: rng.Int64N(1e9), Took: time.Duration(1200*ms + rng.Int64N(300*ms)), Exercised: true,
					History:    fmt.Sprintf("histories/%s-%s-%s-%s-%d.jsonl", fileName(l.name), l.guard, scenario, workload, n),
					Operations: map[string]int{"ok": 20 + rng.IntN(10), "fail": rng.IntN(8), "info": rng.IntN(3)},
				}
				make(&t)
				c.Trials = append(c.Trials, t)
			}
			run.Cells = append(run.Cells, c)
			return &run.Cells[len(run.Cells)-1]
		}
		locking := l.name != "none"
		conditional, fences := l.guard == "conditional", l.guard == "fenced"
		quorum := l.family == "redlock" || l.family == "external"

		c := add("contention", "stock", "single", func(t *results.Trial) {
			if !locking {
				judgeTrial(t, locking, fences, map[string]results.Verdict{"resource": results.Violated})
				setFigure(t, "resource", "oversold_units", float64(17+rng.IntN(8)))
				return
			}
			judgeTrial(t, locking, fences, nil)
			if l.name == "redsync" && t.N > 4 {
				setVerdict(t, "resource", results.Unknown, "no verdict within 10 s: 4,212 operations of unknown outcome")
			}
		})
		if locking {
			c.Latency = []results.Latency{sampleLatency(rng, "acquire", 2400, l.speed), sampleLatency(rng, "release", 2380, l.speed*0.7)}
		}
		if l.name == "none" || l.name == "token" && !conditional {
			add("contention", "wallet", "single", func(t *results.Trial) {
				if locking {
					judgeTrial(t, true, false, nil)
					setFigure(t, "resource", "lost_updates", 0)
					return
				}
				judgeTrial(t, false, false, map[string]results.Verdict{"resource": results.Violated})
				setFigure(t, "resource", "lost_updates", float64(2+rng.IntN(3)))
				setVerdict(t, "resource", results.Violated, "two withdrawals read the same balance, and both wrote")
			})
		}
		if !locking {
			continue
		}
		add("expiry_midop", "stock", "single", func(t *results.Trial) {
			t.Evidence = []string{"client 0 held for 750 ms with a TTL of 500 ms"}
			t.Spans = []results.Span{{Text: "payment call takes 1.5 TTL", Node: "worker-0", From: 40 * ms, To: 790 * ms}}
			switch {
			case l.name == "watchdog":
				judgeTrial(t, true, false, nil)
			case l.name == "naive":
				judgeTrial(t, true, false, broken("lease", "mutex", "resource"))
				setFigure(t, "lease", "overlaps", 1)
				overlapping(t, rng, 750*ms, 250*ms)
			default:
				judgeTrial(t, true, fences, broken(nothingOr(fences || conditional, "resource"), "mutex"))
				overlapping(t, rng, 750*ms, 250*ms)
			}
		})
		add("gc_pause", "stock", "single", func(t *results.Trial) {
			t.Evidence = []string{"worker-0 was stopped for 1 s while client 0 held hold 1"}
			t.Spans = []results.Span{{Text: "SIGSTOP: the whole process of client 0", Node: "worker-0", From: 120 * ms, To: 1120 * ms}}
			if l.name == "redlock" && t.N == 3 {
				t.Error = "starting redis-server for node 4: exit status 1: Could not create server TCP listening socket"
				t.Properties, t.Operations = nil, nil
				t.Exercised, t.Evidence, t.Spans = false, nil, nil
				return
			}
			if l.name == "redsync" && t.N >= 5 {
				judgeTrial(t, true, false, nil)
				t.Exercised, t.Why, t.Evidence = false, "the pause hit nobody who held the lock", nil
				return
			}
			judgeTrial(t, true, fences, broken(nothingOr(fences || conditional, "resource"), "mutex"))
			overlapping(t, rng, 1010*ms+rng.Int64N(20*ms), 350*ms)
			if l.name == "watchdog" {
				setFigure(t, "notice", "belief_gap_ns", float64(510*ms+rng.Int64N(10*ms)))
			}
		})
		c = add("failover/promote", "stock", "replica", func(t *results.Trial) {
			t.Evidence = []string{"replica-1 was promoted without the lock key"}
			t.Spans = []results.Span{
				{Text: "replication cut", Node: "replica-1", From: 10 * ms, To: 205 * ms},
				{Text: "primary killed", Node: "primary", From: 90 * ms, To: 700 * ms},
				{Text: "promoted", Node: "replica-1", From: 205 * ms, To: 205 * ms},
			}
			if quorum {
				judgeTrial(t, true, false, nil)
				return
			}
			bad := broken("lease", "mutex", nothingOr(conditional, "resource"))
			if fences {
				bad["fencing"] = results.Violated
			}
			judgeTrial(t, true, fences, bad)
			setFigure(t, "lease", "overlaps", 1)
			if fences {
				setFigure(t, "fencing", "repeats", 1)
				setFigure(t, "fencing", "reversals", 0)
			}
			overlapping(t, rng, 480*ms, 220*ms)
		})
		if l.name == "redsync" {
			for i := range c.Trials {
				t := &c.Trials[i]
				judgeTrial(t, true, false, nil)
				t.Exercised, t.Why, t.Evidence, t.Holds = false, "replica-1 had the lock key before the link was cut", nil, nil
			}
		}
		if l.family == "external" {
			c.Trials, c.Skipped = nil, "the adapter needs Node.js 20 or later, and there is no node on this machine"
		}
		c = add("crash_holder", "lock", "single", func(t *results.Trial) {
			judgeTrial(t, true, fences, map[string]results.Verdict{"resource": results.NotApplicable})
			t.Evidence = []string{"worker-0 was killed while client 0 held hold 1"}
			setFigure(t, "orphan", "orphan_ns", float64(430*ms+rng.Int64N(40*ms)))
			if l.name == "naive" {
				for _, p := range []string{"honesty", "notice", "orphan", "progress"} {
					setVerdict(t, p, results.Violated, "invented, to show every property broken")
				}
				setFigure(t, "honesty", "false_answers", 2)
				setFigure(t, "progress", "wait_max_ns", 4.2e9)
			}
		})
		if l.guard != "none" {
			c.Trials, c.Skipped = nil, "a guard changes nothing where there is no resource"
		}
	}
	return run
}

func nothingOr(nothing bool, property string) string {
	if nothing {
		return ""
	}
	return property
}

func broken(properties ...string) map[string]results.Verdict {
	v := map[string]results.Verdict{}
	for _, p := range properties {
		if p != "" {
			v[p] = results.Violated
		}
	}
	return v
}

var sampleReasons = map[string]string{
	"lease":    "hold 2 was granted 240 ms before the lease of hold 1 could have ended",
	"mutex":    "client 1 was granted hold 2 while client 0 believed in hold 1",
	"resource": "3 units were sold of a stock of 2",
	"fencing":  "token 1 was granted twice",
}

func judgeTrial(t *results.Trial, locking, fences bool, verdicts map[string]results.Verdict) {
	t.Properties = nil
	for _, name := range results.Properties {
		p := results.Property{Name: name, Verdict: results.Holds}
		switch {
		case !locking && name != "resource":
			p.Verdict, p.Reason = results.NotApplicable, "there is no lock"
		case name == "fencing" && !fences:
			p.Verdict, p.Reason = results.NotApplicable, "the lock has no fencing tokens"
		case verdicts[name] != "":
			p.Verdict, p.Reason = verdicts[name], sampleReasons[name]
		}
		if p.Verdict == results.Violated {
			stem := fmt.Sprintf("counterexamples/%s-%d", name, t.Seed)
			p.Counterexample = stem + ".jsonl"
			if name == "lease" || name == "resource" {
				p.Picture = stem + ".html"
			}
		}
		if name == "progress" && locking {
			p.Figures = map[string]float64{"wait_p50_ns": 1.4e6, "wait_p99_ns": 2.31e7}
		}
		if name == "resource" && p.Verdict != results.NotApplicable {
			p.Figures = map[string]float64{"oversold_units": 0}
			if p.Verdict == results.Violated {
				p.Figures["oversold_units"] = 1
			}
		}
		t.Properties = append(t.Properties, p)
	}
}

func setVerdict(t *results.Trial, property string, v results.Verdict, reason string) {
	for i := range t.Properties {
		if p := &t.Properties[i]; p.Name == property {
			p.Verdict, p.Reason = v, reason
		}
	}
}

func setFigure(t *results.Trial, property, name string, v float64) {
	for i := range t.Properties {
		if p := &t.Properties[i]; p.Name == property {
			if p.Figures == nil {
				p.Figures = map[string]float64{}
			}
			p.Figures[name] = v
			if name == "lost_updates" {
				delete(p.Figures, "oversold_units")
			}
		}
	}
}

// overlapping gives a trial the holds of a client that held on for the given time
// after 100 ms, and of two that got the lock meanwhile and after.
func overlapping(t *results.Trial, rng *rand.Rand, held, overlap int64) {
	overlap += rng.Int64N(40 * ms)
	from := 20*ms + rng.Int64N(10*ms)
	to := from + held
	second := to - overlap
	t.Holds = []results.Hold{
		{Client: 0, Hold: 1, Key: "{item}:lock", From: from, To: to, Lease: from + sampleSU - 2*ms},
		{Client: 1, Hold: 2, Key: "{item}:lock", From: second, To: to + 60*ms, Lease: second + sampleSU},
		{Client: 2, Hold: 3, Key: "{item}:lock", From: to + 90*ms, To: to + 150*ms, Lease: to + 90*ms + sampleSU},
	}
	setFigure(t, "mutex", "overlap_ns", float64(overlap))
	setFigure(t, "mutex", "overlaps", 1)
}

// sampleLatency draws n durations from a log-normal distribution with a tail.
func sampleLatency(rng *rand.Rand, op string, n int, medianMS float64) results.Latency {
	all := make([]int64, n)
	for i := range all {
		v := medianMS * math.Exp(0.35*rng.NormFloat64())
		if rng.Float64() < 0.012 {
			v *= 4 + 20*rng.Float64()
		}
		all[i] = int64(v * 1e6)
	}
	slices.Sort(all)
	at := func(q float64) int64 { return all[min(n-1, int(q*float64(n)))] }
	l := results.Latency{Op: op, Count: int64(n), P50: at(.5), P99: at(.99), P999: at(.999), Max: all[n-1]}
	for upper, k := 1e4, 0; k < n; upper *= 1.3 {
		start := k
		for k < n && all[k] <= int64(upper) {
			k++
		}
		if k > start {
			l.Buckets = append(l.Buckets, results.Bucket{Upper: int64(upper), Count: int64(k - start)})
		}
	}
	return l
}

// loadSample returns the run in testdata/results.json and proves that it is the one
// that this file describes.
func loadSample(t *testing.T) *results.Run {
	t.Helper()
	path := filepath.Join("testdata", "results.json")
	want := sampleRun()
	if *update {
		if err := results.Write(path, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := results.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is not what sampleRun makes; refresh it with go test ./reports -update", path)
	}
	return got
}
