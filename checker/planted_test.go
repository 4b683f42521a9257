package checker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
	"lockstress/results"
)

// A double grant planted in a long history is found, and shown with the two holds
// that it is about. The planted belief lies strictly within another's, and its grant
// strictly within that lease: so there is an overlap to be found.
func TestPlantedDoubleGrant(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 5))
		h := lockHistory(2000, 8, true)
		h.Header.Clients = 8
		v, err := newView(h)
		if err != nil {
			t.Fatal(err)
		}
		var victim *hold
		for victim == nil {
			d := v.holds[r.IntN(len(v.holds))]
			if from, to := v.belief(d); d.granted() && to-from > 8 {
				victim = d
			}
		}
		from, to := v.belief(victim)
		planted := []history.Event{}
		process := h.Header.Process((victim.client+1)%8, history.ClientRole, 1_000_000)
		for i, e := range []history.Event{
			{Type: history.Invoke, Op: history.Acquire}, {Type: history.OK, Op: history.Acquire},
			{Type: history.Invoke, Op: history.Release}, {Type: history.OK, Op: history.Release},
		} {
			e.Time, e.Process, e.Key, e.Hold = from+1+int64(i), process, "k", 1_000_000
			planted = append(planted, e)
		}
		if planted[1].Time <= from || planted[2].Time >= to {
			t.Fatal("what was planted does not overlap")
		}
		h = history.Merge(h.Header, h.Events, planted)
		report := check(t, h)
		for _, name := range []string{"lease", "mutex"} {
			f, _ := report.Finding(name)
			if f.Verdict != bad {
				t.Fatalf("seed %d: %s is %s: %s", seed, name, f.Verdict, f.Reason)
			}
			found := map[int64]bool{}
			for _, e := range f.Cut.Events {
				if e.Op == history.Acquire {
					found[e.Hold] = true
				}
			}
			if len(found) != 2 || !found[1_000_000] {
				t.Errorf("seed %d: the cut of %s is about holds %v", seed, name, found)
			}
		}
		figure(t, report, "mutex", "overlap_ns", 1)
	}
}

// A sale planted in a long history, from a value that another was made from.
func TestPlantedSale(t *testing.T) {
	h := stockHistory(2000, 16)
	var sold history.Event
	for _, e := range h.Events {
		if e.Type == history.OK && e.Value < 1500 {
			sold = e
			break
		}
	}
	again := sold
	again.Process = h.Header.Process(0, history.ClientRole, 1_000_000)
	invoke := again
	invoke.Type, invoke.Known, invoke.Value = history.Invoke, false, 0
	h = history.Merge(h.Header, h.Events, []history.Event{invoke, again})
	r := check(t, h)
	f, _ := r.Finding("resource")
	if f.Verdict != bad {
		t.Fatalf("resource is %s: %s", f.Verdict, f.Reason)
	}
	if ops, _ := f.Cut.Operations(); len(ops) != 2 {
		t.Errorf("the cut has %d operations", len(ops))
	}
}

// Histories too long for the brute force: the sweep against the search alone. The
// search may run out of time, but must not say the opposite.
func TestLongerHistories(t *testing.T) {
	n := histories(t) / 40
	seen := map[string]map[results.Verdict]int{"lease": {}, "mutex": {}, "resource": {}}
	undecided := 0
	agree := func(h *history.History, name string, m porcupine.Model, ops []porcupine.Operation) {
		t.Helper()
		f, _ := check(t, h).Finding(name)
		seen[name][f.Verdict]++
		switch porcupine.CheckOperationsTimeout(m, ops, 50*time.Millisecond) {
		case porcupine.Unknown:
			undecided++
		case porcupine.Ok:
			if f.Verdict != holds {
				t.Fatalf("%s is %s (%s), but legal for the search\n%s", name, f.Verdict, f.Reason, show(h))
			}
		case porcupine.Illegal:
			if f.Verdict != bad {
				t.Fatalf("%s is %s (%s), but illegal for the search\n%s", name, f.Verdict, f.Reason, show(h))
			}
		}
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		h := lockHistory(40+r.IntN(20), 2+r.IntN(4), true)
		shake(r, h)
		if v, err := newView(h); err == nil {
			agree(h, "mutex", lockModel, v.mutexOps())
			agree(h, "lease", lockModel, v.leaseOpsDrawn())
		}
		h = stockHistory(30+r.IntN(30), 2+r.IntN(8))
		h.Header.Initial += int64(r.IntN(2)) // none of it is sold
		for i := range h.Events {
			if e := &h.Events[i]; e.Known && r.IntN(60) == 0 {
				e.Value += r.Int64N(3) - 1
			}
			if e := &h.Events[i]; h.Header.Initial > 0 && e.Known {
				e.Value += h.Header.Initial - int64(len(h.Events)/2)
			}
		}
		if v, err := newView(h); err == nil {
			agree(h, "resource", resourceModel(h.Header.Initial), v.resourceOps())
		}
	}
	t.Logf("%v; the search left %d undecided", seen, undecided)
	for name, by := range seen {
		if by[holds] == 0 || by[bad] == 0 {
			t.Errorf("%s: %v is lopsided", name, by)
		}
	}
}

// shake has a few grants answered earlier than they were, after their invocation.
func shake(r *rand.Rand, h *history.History) {
	asked := map[int64]int64{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != history.Acquire {
			continue
		}
		if e.Type == history.Invoke {
			asked[e.Hold] = e.Time
		} else if r.IntN(40) == 0 {
			e.Time -= r.Int64N(min(e.Time-asked[e.Hold], 30) + 1)
		}
	}
	*h = *history.Merge(h.Header, h.Events)
}
