package checker

import (
	"strconv"
	"testing"

	"lockstress/history"
	"lockstress/results"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

var stockHeader = history.Header{Lock: "t", Workload: "stock", Locks: true, Clients: 3, Nodes: 1, Initial: 3, Amount: 1}

func TestResource(t *testing.T) {
	wallet := stockHeader
	wallet.Workload, wallet.Initial, wallet.Amount = "wallet", 100, 10
	tests := []struct {
		name   string
		header history.Header
		lines  []string
		want   results.Verdict
	}{
		{"sold one by one", stockHeader, []string{"0-1 0 buy ok v=3", "2-3 1 buy ok v=2", "4-5 0 buy ok v=1", "6-7 1 buy fail v=0 e=sold-out", "8-9 6 read ok v=0"}, holds},
		{"two saw the same", stockHeader, []string{"0-5 0 buy ok v=3", "1-6 1 buy ok v=3"}, bad},
		{"wallet: two of three lost", wallet, []string{"0-5 0 withdraw ok v=100", "0-5 1 withdraw ok v=100", "0-5 2 withdraw ok v=100", "9-9 6 read ok v=90"}, bad},
		{"wallet: in order", wallet, []string{"0-5 0 withdraw ok v=100", "0-5 1 withdraw ok v=90", "0-5 2 withdraw ok v=80", "9-9 6 read ok v=70"}, holds},
		{"wallet: odd balance", wallet, []string{"0-5 0 withdraw ok v=95"}, bad},
		{"concurrent, either order", stockHeader, []string{"0-9 0 buy ok v=2", "1-8 1 buy ok v=3"}, holds},
		{"the later saw more", stockHeader, []string{"0-1 0 buy ok v=3", "2-3 1 buy ok v=2", "4-5 0 read ok v=2"}, bad},
		{"touching at one instant", stockHeader, []string{"0-2 0 buy ok v=2", "2-3 1 buy ok v=3"}, holds},
		{"one nanosecond apart", stockHeader, []string{"0-1 0 buy ok v=2", "2-3 1 buy ok v=3"}, bad},
		{"sale after sold out", stockHeader, []string{"0-1 0 buy ok v=3", "0-1 1 buy ok v=2", "0-1 2 buy ok v=1", "2-3 0 buy fail v=0 e=sold-out", "4-5 1 buy ok v=1"}, bad},
		{"sold out though there was some", stockHeader, []string{"0-1 0 buy fail v=2 e=sold-out"}, bad},
		{"below zero", stockHeader, []string{"0-1 0 buy ok v=0"}, bad},
		{"more than there was", stockHeader, []string{"0-1 0 buy ok v=4"}, bad},
		{"a unit vanished", stockHeader, []string{"0-1 0 buy ok v=3", "2-3 1 buy ok v=1"}, bad},
		{"a unit went to an unknown sale", stockHeader, []string{"0-1 0 buy ok v=3", "0-2 2 buy info", "2-3 1 buy ok v=1"}, holds},
		{"the unknown sale came too late", stockHeader, []string{"0-1 0 buy ok v=3", "2-3 1 buy ok v=1", "4-5 2 buy info"}, bad},
		{"the unknown sale saw something else", stockHeader, []string{"0-1 0 buy ok v=3", "0-2 2 buy info v=3", "2-3 1 buy ok v=1"}, bad},
		{"one unknown sale for two gaps", stockHeader, []string{"0-1 0 buy ok v=3", "0-2 2 buy info", "3-4 6 read ok v=0"}, bad},
		{"left open at the end", stockHeader, []string{"0-1 0 buy ok v=3", "0-? 2 buy", "3-4 6 read ok v=1"}, holds},
		{"an unknown sale that never was", stockHeader, []string{"0-1 0 buy ok v=3", "0-1 2 buy info", "3-4 6 read ok v=2"}, holds},
		{"refused sales change nothing", stockHeader, []string{"0-1 0 buy ok v=3", "0-1 1 buy fail v=3 e=stale", "0-1 2 buy fail v=3 e=gave-up", "2-3 6 read ok v=2"}, holds},
		{"sale that does not say", stockHeader, []string{"0-1 0 buy ok", "2-3 1 buy ok v=2"}, holds},
		{"sale that does not say, one too many", stockHeader, []string{"0-1 0 buy ok", "2-3 1 buy ok v=2", "4-5 0 buy ok", "6-7 0 buy ok"}, bad},
		{"two keys", stockHeader, []string{"0-1 0 buy ok v=3 k=a", "2-3 1 buy ok v=3 k=b"}, holds},
		{"nothing was touched", stockHeader, []string{"0-1 0 acquire ok h=1"}, na},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := check(t, script(t, test.header, test.lines...))
			verdicts{"resource": test.want}.of(t, r)
		})
	}
}

func TestResourceFigures(t *testing.T) {
	h := script(t, stockHeader,
		"0-1 0 buy ok v=3", "0-1 1 buy ok v=3", "2-3 0 buy ok v=2", "2-3 1 buy ok v=2", "2-3 2 buy fail v=2 e=stale", "5-6 2 buy info", "9-10 6 read ok v=1")
	r := check(t, h)
	verdicts{"resource": bad}.of(t, r)
	for name, want := range map[string]float64{
		"sold_units": 4, "oversold_units": 1, "oversold_max_units": 2, "lost_updates": 2, "stale_writes_refused": 1, "unknown_units": 1,
	} {
		figure(t, r, "resource", name, want)
	}
	f, _ := r.Finding("resource")
	if ops, _ := f.Cut.Operations(); len(ops) != 2 {
		t.Errorf("the cut has %d operations: two sales from one value are enough", len(ops))
	}
}

// A gap deep in a long history is shown by the operations around it.
func TestResourceWindow(t *testing.T) {
	header := stockHeader
	header.Initial = 500
	var lines []string
	for i := range int64(400) {
		at := i * 10
		if i == 200 {
			continue // nobody sold the 300th
		}
		lines = append(lines, itoa(at)+"-"+itoa(at+1)+" 0 buy ok v="+itoa(500-i), itoa(at+2)+"-"+itoa(at+3)+" 6 read ok v="+itoa(499-i))
	}
	r := check(t, script(t, header, lines...))
	f, _ := r.Finding("resource")
	if f.Verdict != bad {
		t.Fatalf("resource is %s", f.Verdict)
	}
	if ops, _ := f.Cut.Operations(); len(ops) > 4 {
		t.Errorf("the cut has %d operations\n%s", len(ops), show(f.Cut))
	}
}
