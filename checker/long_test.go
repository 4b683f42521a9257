package checker

import (
	"math/rand/v2"
	"strings"
	"testing"

	"lockstress/history"
	"lockstress/results"
)

// A history too long for Porcupine is judged by the sweep and a monitor; on short
// ones, where Porcupine has an answer, that must be the same answer.
func TestMonitorsJudgeAsPorcupineDoes(t *testing.T) {
	for property, generate := range map[string]func(*rand.Rand) *history.History{
		"mutex": randomLock, "lease": randomLock, "resource": randomStock,
	} {
		t.Run(property, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			seen := map[results.Verdict]int{}
			for range histories(t) / 8 {
				h := generate(r)
				short, err := Check(t.Context(), h, Options{})
				if err != nil {
					t.Fatal(err)
				}
				long, err := Check(t.Context(), h, Options{Searchable: 1})
				if err != nil {
					t.Fatal(err)
				}
				a, _ := short.Finding(property)
				b, _ := long.Finding(property)
				if b.Verdict == results.Unknown && strings.HasPrefix(b.Reason, "too long for a search") {
					continue // it says that it cannot tell
				}
				if a.Verdict != b.Verdict {
					t.Fatalf("Porcupine: %s %s; monitor: %s %s\n%s", a.Verdict, a.Reason, b.Verdict, b.Reason, show(h))
				}
				seen[b.Verdict]++
			}
			lopsided(t, seen)
		})
	}
}

// What Porcupine has no memory for is judged all the same, and exactly.
func TestLongHistories(t *testing.T) {
	const n = 20_000
	h := lockHistory(n, 16, true)
	wantVerdict(t, h, "mutex", holds)
	wantVerdict(t, h, "lease", holds)
	wantVerdict(t, stockHistory(n, 16), "resource", holds)

	// Two grants far apart from each other's releases, near the end.
	at := int64(0)
	for i := range h.Events {
		if e := &h.Events[len(h.Events)-1-i]; e.Op == history.Acquire && e.Type == history.OK {
			at = e.Hold
			break
		}
	}
	planted := &history.History{Header: h.Header}
	fresh, process := int64(10*n), h.Header.Process(0, history.ClientRole, 1000)
	for _, e := range h.Events {
		planted.Events = append(planted.Events, e)
		if e.Op == history.Acquire && e.Type == history.OK && e.Hold == at {
			e.Process, e.Hold = process, fresh
			e.Type = history.Invoke
			planted.Events = append(planted.Events, e)
			e.Type = history.OK
			planted.Events = append(planted.Events, e)
		}
	}
	wantVerdict(t, planted, "mutex", bad)
}
