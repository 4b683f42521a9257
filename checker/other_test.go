package checker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
	"lockstress/results"
)

func TestFencing(t *testing.T) {
	fenced := lockHeader
	fenced.Fences = true
	tests := []struct {
		name   string
		header history.Header
		lines  []string
		want   results.Verdict
	}{
		{"no tokens promised", lockHeader, []string{"0-1 0 acquire ok h=1 f=5"}, na},
		{"no tokens given", fenced, []string{"0-1 0 acquire ok h=1"}, na},
		{"rising", fenced, []string{"0-1 0 acquire ok h=1 f=5", "2-3 1 acquire ok h=2 f=9"}, holds},
		{"repeated", fenced, []string{"0-1 0 acquire ok h=1 f=5", "2-3 1 acquire ok h=2 f=5"}, bad},
		{"repeated at once", fenced, []string{"0-3 0 acquire ok h=1 f=5", "1-2 1 acquire ok h=2 f=5"}, bad},
		{"falling", fenced, []string{"0-1 0 acquire ok h=1 f=5", "2-3 1 acquire ok h=2 f=4"}, bad},
		{"falling, but at once", fenced, []string{"0-2 0 acquire ok h=1 f=5", "2-3 1 acquire ok h=2 f=4"}, holds},
		{"other keys", fenced, []string{"0-1 0 acquire ok h=1 f=5 k=a", "2-3 1 acquire ok h=2 f=5 k=b"}, holds},
		{"by answer, not by call", fenced, []string{"0-9 0 acquire ok h=1 f=5", "1-2 1 acquire ok h=2 f=4"}, holds},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, _ := check(t, script(t, test.header, test.lines...)).Finding("fencing")
			if f.Verdict != test.want {
				t.Errorf("fencing is %s (%s), not %s", f.Verdict, f.Reason, test.want)
			}
		})
	}
}

// The sweep over tokens finds a violation exactly where the token model has none.
func TestFencingAgrees(t *testing.T) {
	header := lockHeader
	header.Fences, header.Clients = true, 8
	r := rand.New(rand.NewPCG(3, 1))
	seen := map[results.Verdict]int{}
	for range 1000 {
		h := &history.History{Header: header}
		var parts [][]history.Event
		for p := range 2 + r.IntN(5) {
			from := r.Int64N(20)
			e := history.Event{Time: from, Process: p, Type: history.Invoke, Op: history.Acquire, Key: "k", Hold: int64(p + 1)}
			done := e
			done.Type, done.Time, done.Fence = history.OK, from+r.Int64N(8), 1+r.Int64N(5)+from/2
			parts = append(parts, []history.Event{e, done})
		}
		h = history.Merge(header, parts...)
		v, err := newView(h)
		if err != nil {
			t.Fatal(err)
		}
		f, _ := check(t, h).Finding("fencing")
		seen[f.Verdict]++
		if legal := porcupine.CheckOperations(tokenModel, v.tokenOps()); legal != (f.Verdict == holds) {
			t.Fatalf("the sweep says %s, the search %v\n%s", f.Verdict, legal, show(h))
		}
	}
	if seen[holds] < 100 || seen[bad] < 100 {
		t.Errorf("the histories were lopsided: %v", seen)
	}
}

func TestNotice(t *testing.T) {
	notices := lockHeader
	notices.Notices = true
	late := []string{"0-1 0 acquire ok h=1 d=100", "105-106 1 acquire ok h=2 d=205", "150-151 1 release ok h=2", "180-181 0 release fail h=1 e=not-held"}
	tests := []struct {
		name   string
		header history.Header
		lines  []string
		want   results.Verdict
		gap    float64
	}{
		{"in time", notices, []string{"0-1 0 acquire ok h=1 d=100", "50-51 0 release ok h=1"}, na, 0},
		{"outlived, never told, no such claim", lockHeader, late, na, 80},
		{"outlived, never told", notices, late, bad, 80},
		{"told before anybody else came", lockHeader, []string{"0-1 0 acquire ok h=1 d=100", "104 3 lost h=1", "105-106 1 acquire ok h=2 d=205", "110-111 1 release ok h=2"}, holds, 4},
		{"told after somebody else had come", notices, []string{"0-1 0 acquire ok h=1 d=100", "103-104 1 acquire ok h=2 d=205", "130 3 lost h=1", "135-136 1 release ok h=2"}, bad, 30},
		{"outlived alone", notices, []string{"0-1 0 acquire ok h=1 d=100", "130-131 0 release fail h=1 e=not-held"}, holds, 30},
		{"extended", notices, []string{"0-1 0 acquire ok h=1 d=100", "50-51 3 extend ok h=1 d=150", "130-131 0 release ok h=1"}, na, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := check(t, script(t, test.header, test.lines...))
			f, _ := r.Finding("notice")
			if f.Verdict != test.want {
				t.Errorf("notice is %s (%s), not %s", f.Verdict, f.Reason, test.want)
			}
			figure(t, r, "notice", "belief_gap_ns", test.gap)
		})
	}
}

func TestProgress(t *testing.T) {
	h := lockHeader
	h.TTL, h.Margin = 500e6, 5e6
	tests := []struct {
		name  string
		lines []string
		want  results.Verdict
	}{
		{"never granted", []string{"0-1ms 0 acquire fail h=1 e=busy"}, na},
		{"granted", []string{"0-1ms 0 acquire ok h=1"}, holds},
		{"not after the fault", []string{"0-1ms 0 acquire ok h=1", "5ms n fault s=x", "6ms-7ms 1 acquire fail h=2 e=busy"}, na},
		{"busy long after the holder was killed", []string{"0-1ms 0 acquire ok h=1", "5ms n dead p=0", "800ms-810ms 1 acquire fail h=2 e=busy"}, bad},
		{"busy not long after", []string{"0-1ms 0 acquire ok h=1", "5ms n dead p=0", "600ms-610ms 1 acquire fail h=2 e=busy"}, na},
		{"the holder is alive", []string{"0-1ms 0 acquire ok h=1", "2000ms-2010ms 1 acquire fail h=2 e=busy"}, holds},
		{"busy long after an acquire of unknown outcome", []string{"0-1ms 0 acquire info h=1", "2000ms-2010ms 1 acquire fail h=2 e=busy"}, bad},
		{"busy long after a release left open", []string{"0-1ms 0 acquire ok h=1", "5ms-? 0 release h=1", "2000ms-2010ms 1 acquire fail h=2 e=busy"}, holds},
		{"somebody else tries at the same time", []string{"0-1ms 0 acquire ok h=1", "5ms n dead p=0", "800ms-820ms 1 acquire fail h=2 e=busy", "805ms-810ms 2 acquire ok h=3"}, holds},
		{"kept out by itself", []string{"0-1ms 0 acquire ok h=1", "2ms-100ms 0 acquire fail h=2 e=busy", "101ms-102ms 0 release ok h=1"}, bad},
		{"kept out by itself until its time was up", []string{"0-1ms 0 acquire ok h=1", "2ms-505ms 0 acquire ok h=2", "506ms-507ms 0 release ok h=2", "508ms-509ms 0 release fail h=1 e=not-held"}, bad},
		{"re-entered", []string{"0-1ms 0 acquire ok h=1", "2ms-3ms 0 acquire ok h=2", "506ms-507ms 0 release ok h=2", "508ms-509ms 0 release ok h=1"}, holds},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, _ := check(t, script(t, h, test.lines...)).Finding("progress")
			if f.Verdict != test.want {
				t.Errorf("progress is %s (%s), not %s", f.Verdict, f.Reason, test.want)
			}
		})
	}
	r := check(t, script(t, h, "0-10 0 acquire ok h=1", "11-12 0 release ok h=1", "11-41 1 acquire ok h=2", "20 n fault s=x", "50-70 2 acquire fail h=3 e=busy", "60-61 1 release ok h=2", "70-90 0 acquire ok h=4"))
	for name, want := range map[string]float64{"wait_p50_ns": 20, "wait_p99_ns": 30, "wait_max_ns": 30, "busy": 1, "recovery_ns": 70} {
		figure(t, r, "progress", name, want)
	}
}

func TestExercised(t *testing.T) {
	faulty, unlocked := lockHeader, lockHeader
	faulty.Faulty = true
	unlocked.Locks = false
	tests := []struct {
		name   string
		header history.Header
		lines  []string
		want   string // Why; empty if exercised
	}{
		{"granted", lockHeader, []string{"0-1 0 acquire ok h=1"}, ""},
		{"nothing succeeded", lockHeader, []string{"0-1 0 acquire fail h=1 e=busy"}, "no acquire"},
		{"no bite", faulty, []string{"0-1 0 acquire ok h=1"}, "bit"},
		{"bite", faulty, []string{"0-1 0 acquire ok h=1", "2 n bite s=stopped"}, ""},
		{"bite and miss", faulty, []string{"0-1 0 acquire ok h=1", "2 n bite s=stopped", "3 n miss s=late"}, "late"},
		{"no lock, a sale", unlocked, []string{"0-1 0 buy ok v=0"}, ""},
		{"no lock, no sale", unlocked, []string{"0-1 0 buy fail e=sold-out v=0"}, "no buy"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := check(t, script(t, test.header, test.lines...))
			if r.Exercised != (test.want == "") || !strings.Contains(r.Why, test.want) {
				t.Errorf("exercised is %v, %q", r.Exercised, r.Why)
			}
		})
	}
}

func TestReport(t *testing.T) {
	h := script(t, lockHeader,
		"0-5 0 acquire ok h=1 d=98", "3 n fault n=w s=stop", "6-7 1 acquire fail h=2 e=busy", "8 n heal n=w s=stop", "9 n fault n=w s=stop", "10-12 3 extend ok h=1 d=108", "20-? 0 release h=1")
	r := check(t, h)
	if want := (map[string]int{"ok": 2, "fail": 1, "info": 1}); r.Operations["ok"] != 2 || r.Operations["fail"] != 1 || r.Operations["info"] != 1 {
		t.Errorf("operations are %v, not %v", r.Operations, want)
	}
	if want := []results.Hold{{Client: 0, Hold: 1, Key: "k", From: 5, To: 20, Lease: 108}}; !slices.Equal(r.Holds, want) {
		t.Errorf("holds are %+v, not %+v", r.Holds, want)
	}
	if want := []results.Span{{Text: "stop", Node: "w", From: 3, To: 8}, {Text: "stop", Node: "w", From: 9, To: 20}}; !slices.Equal(r.Spans, want) {
		t.Errorf("spans are %+v, not %+v", r.Spans, want)
	}
	if got := r.Latencies[history.Acquire]; !slices.Equal(got, []time.Duration{5}) {
		t.Errorf("latencies of acquire are %v", got)
	}
	for _, test := range []struct {
		verdicts []results.Verdict
		want     results.Verdict
	}{
		{nil, na}, {[]results.Verdict{na, na}, na}, {[]results.Verdict{na, holds}, holds},
		{[]results.Verdict{holds, results.Unknown, holds}, results.Unknown}, {[]results.Verdict{results.Unknown, bad, holds}, bad},
	} {
		var r Report
		for _, v := range test.verdicts {
			r.Findings = append(r.Findings, Finding{Property: results.Property{Verdict: v}})
		}
		if got := r.Verdict(); got != test.want {
			t.Errorf("%v together are %s, not %s", test.verdicts, got, test.want)
		}
	}
}

// A search that is cut short says unknown, whatever stopped it.
func TestUnknown(t *testing.T) {
	h := lockHistory(400, 4, false)
	r, err := Check(t.Context(), h, Options{Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	verdicts{"mutex": results.Unknown, "lease": results.Unknown}.of(t, r)
	if f, _ := r.Finding("lease"); !strings.Contains(f.Reason, "MB") {
		t.Errorf("the reason is %q", f.Reason)
	}
	if r.Verdict() != results.Unknown {
		t.Errorf("overall: %s", r.Verdict())
	}
	r, err = Check(t.Context(), lockHistory(20000, 8, false), Options{Timeout: time.Nanosecond, Searchable: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	verdicts{"mutex": results.Unknown, "lease": results.Unknown}.of(t, r)
	f, _ := r.Finding("mutex")
	if !strings.Contains(f.Reason, "within 1ns") {
		t.Errorf("the reason is %q", f.Reason)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, h, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended the error is %v", err)
	}
}

func TestForeignEvents(t *testing.T) {
	h := &history.History{Header: lockHeader, Events: []history.Event{{Type: history.OK, Op: history.Acquire, Hold: 1}}}
	if _, err := Check(t.Context(), h, Options{}); err == nil {
		t.Error("a completion without an invocation was accepted")
	}
}

func TestShrink(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.IntN(40)
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		// Bad: any of some needed sets is there whole.
		var sets [][]int
		for range 1 + r.IntN(3) {
			sets = append(sets, r.Perm(n)[:1+r.IntN(min(n, 4))])
		}
		has := func(some []int) bool {
			return slices.ContainsFunc(sets, func(set []int) bool {
				return !slices.ContainsFunc(set, func(x int) bool { return !slices.Contains(some, x) })
			})
		}
		got := shrink(items, has)
		if !has(got) {
			t.Fatalf("seed %d: %v is not bad", seed, got)
		}
		for i := range got {
			if has(slices.Concat(got[:i], got[i+1:])) {
				t.Fatalf("seed %d: %v is bad without %d too", seed, got, got[i])
			}
		}
	}
}
