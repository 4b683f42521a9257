package checker

import (
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
	"lockstress/results"
)

// lockHistory is what clients of a correct lock see, all contending for one key:
// about ops operations, if unknown one release in ten of unknown outcome.
func lockHistory(ops, clients int, unknown bool) *history.History {
	r := rand.New(rand.NewPCG(7, 7))
	header := lockHeader
	header.Clients, header.TTL, header.Margin = clients, 1000, 0
	h := &history.History{Header: header}
	generation := make([]int, clients)
	since := make([]int64, clients) // when each began to wait
	parts := make([][]history.Event, clients)
	now, hold := int64(0), int64(0)
	add := func(c int, t int64, kind history.Type, op history.Op) {
		parts[c] = append(parts[c], history.Event{
			Time: t, Process: header.Process(c, history.ClientRole, generation[c]), Type: kind, Op: op, Key: "k", Hold: hold,
		})
	}
	for range ops / 2 {
		hold++
		c := r.IntN(clients)
		granted := now + 1 + r.Int64N(5)
		add(c, since[c], history.Invoke, history.Acquire)
		add(c, granted, history.OK, history.Acquire)
		released := granted + 1 + r.Int64N(20)
		add(c, released, history.Invoke, history.Release)
		done := released + 2 + r.Int64N(5)
		if unknown && r.IntN(10) == 0 {
			add(c, done, history.Info, history.Release)
			generation[c]++
		} else {
			add(c, done, history.OK, history.Release)
		}
		since[c] = done
		now = done - 1
	}
	return history.Merge(h.Header, parts...)
}

// stockHistory is what buyers of a correct stock see: one sale in a hundred with an
// unknown outcome, half of which happened.
func stockHistory(ops, clients int) *history.History {
	r := rand.New(rand.NewPCG(8, 8))
	header := stockHeader
	header.Clients, header.Initial = clients, int64(ops)
	generation := make([]int, clients)
	free := make([]int64, clients)
	parts := make([][]history.Event, clients)
	now, left := int64(0), header.Initial
	for range ops {
		c := r.IntN(clients)
		now = max(now, free[c]) + 1 + r.Int64N(4) // the moment of the sale
		e := history.Event{
			Time: max(free[c], now-r.Int64N(20)), Process: header.Process(c, history.ClientRole, generation[c]), Type: history.Invoke, Op: history.Buy, Key: "s",
		}
		done := e
		done.Time = now + r.Int64N(20)
		free[c] = done.Time
		if r.IntN(100) == 0 {
			done.Type = history.Info
			generation[c]++
			left -= r.Int64N(2)
		} else {
			done.Type, done.Value, done.Known = history.OK, left, true
			left--
		}
		parts[c] = append(parts[c], e, done)
	}
	return history.Merge(header, parts...)
}

func BenchmarkCheckLock10k(b *testing.B) {
	for _, test := range []struct {
		name    string
		clients int
		unknown bool
	}{{"4clients", 4, false}, {"16clients", 16, false}, {"16clients-unknown", 16, true}} {
		h := lockHistory(10_000, test.clients, test.unknown)
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				wantVerdict(b, h, "mutex", results.Holds)
			}
		})
	}
}

func BenchmarkCheckStock10k(b *testing.B) {
	for _, test := range []struct {
		name    string
		clients int
	}{{"4clients", 4}, {"16clients", 16}} {
		h := stockHistory(10_000, test.clients)
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				wantVerdict(b, h, "resource", results.Holds)
			}
		})
	}
}

// BenchmarkPorcupineLock10k is the search alone, for comparison with the whole check.
func BenchmarkPorcupineLock10k(b *testing.B) {
	v, err := newView(lockHistory(10_000, 16, true))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !porcupine.CheckOperations(lockModel, v.leaseOps()) {
			b.Fatal("illegal")
		}
	}
}

func wantVerdict(b testing.TB, h *history.History, property string, want results.Verdict) {
	b.Helper()
	r, err := Check(b.Context(), h, Options{})
	if err != nil {
		b.Fatal(err)
	}
	if f, _ := r.Finding(property); f.Verdict != want {
		b.Fatalf("%s is %s: %s", property, f.Verdict, f.Reason)
	}
}
