package monitor

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	big       = flag.Bool("big", false, "benchmark 10,000,000 operations too")
	withPorcu = flag.Bool("porcupine", false, "benchmark Porcupine on the same histories, 30 s each")
)

var leaseRules = LeaseRules{TTL: simTTL, Margin: simMargin}

// subject is a monitor on a simulated history.
type subject struct {
	name string
	make func(clients, n int, broken bool) (judge func() Verdict, search func(time.Duration) porcupine.CheckResult)
}

func lockSubject(name string, lease bool) subject {
	return subject{name: name, make: func(clients, n int, broken bool) (func() Verdict, func(time.Duration) porcupine.CheckResult) {
		ops := simulateLock(clients, n, 10, lease)
		if broken {
			ops, _, _ = plantGrant(ops, lease)
		}
		if lease {
			return func() Verdict { return Lease(ops, leaseRules) }, nil
		}
		return func() Verdict { return Lock(ops, LockRules{}) }, func(limit time.Duration) porcupine.CheckResult {
			list := make([]porcupine.Operation, len(ops))
			for i, op := range ops {
				list[i] = porcupine.Operation{Input: op, Call: op.Invoke, Return: op.Return}
			}
			return porcupine.CheckOperationsTimeout(plainLock, list, limit)
		}
	}}
}

func stockSubject(name string, values bool) subject {
	return subject{name: name, make: func(clients, n int, broken bool) (func() Verdict, func(time.Duration) porcupine.CheckResult) {
		ops, initial := simulateStock(clients, n, 10, values)
		if broken {
			ops = plantSale(ops, initial)
		}
		return func() Verdict { return Stock(ops, initial) }, func(limit time.Duration) porcupine.CheckResult {
			ops := slices.DeleteFunc(slices.Clone(ops), func(op StockOp) bool { return op.Kind == Read && op.Outcome != OK })
			list := make([]porcupine.Operation, len(ops))
			for i, op := range ops {
				list[i] = porcupine.Operation{Input: op, Call: op.Invoke, Return: op.Return}
			}
			return porcupine.CheckOperationsTimeout(stockModel(initial, 1), list, limit)
		}
	}}
}

// plainLock is the model one would write for a lock without leases: fast, as its state is
// a number.
var plainLock = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		holder, op := state.(int64), input.(LockOp)
		mine, free := holder == op.Hold, holder == 0
		switch {
		case op.Kind == Acquire && op.Outcome == Fail:
			return !free, holder
		case op.Kind == Acquire && free:
			return true, op.Hold
		case op.Kind == Release && op.Outcome == Fail:
			return !mine, holder
		case op.Kind == Release && mine:
			return true, int64(0)
		}
		return op.Outcome == Info, holder
	},
}

func subjects() []subject {
	return []subject{lockSubject("lock", false), lockSubject("lease", true), stockSubject("stock", true), stockSubject("stock-no-values", false)}
}

// TestSimulated: what the benchmarks measure are right verdicts.
func TestSimulated(t *testing.T) {
	for _, s := range subjects() {
		for _, clients := range []int{1, 4, 16, 64} {
			for _, broken := range []bool{false, true} {
				judge, _ := s.make(clients, 20_000, broken)
				want := Legal
				if broken {
					want = Illegal
				}
				if v := judge(); v.Result != want {
					t.Errorf("%s, %d clients, broken %v: %v (%s)", s.name, clients, broken, v.Result, v.Reason)
				}
			}
		}
	}
}

func BenchmarkMonitor(b *testing.B) {
	sizes := []int{10_000, 100_000, 1_000_000}
	if *big {
		sizes = append(sizes, 10_000_000)
	}
	for _, s := range subjects() {
		for _, n := range sizes {
			for _, clients := range []int{16, 64} {
				for _, broken := range []bool{false, true} {
					name := fmt.Sprintf("%s/n=%d/clients=%d/broken=%v", s.name, n, clients, broken)
					b.Run(name, func(b *testing.B) { benchmark(b, s, clients, n, broken) })
				}
			}
		}
	}
}

// benchmark reports the most memory in use at once too, the operations included.
func benchmark(b *testing.B, s subject, clients, n int, broken bool) {
	judge, _ := s.make(clients, n, broken)
	want := Legal
	if broken {
		want = Illegal
	}
	// One core, the collector's work on it included.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.GC()
	for b.Loop() {
		if v := judge(); v.Result != want {
			b.Fatalf("%v (%s)", v.Result, v.Reason)
		}
	}
	b.StopTimer()
	b.ReportMetric(heapPeak(func() { judge() })/1e6, "peak-MB")
}

// heapPeak is the heap in use, operations included, if nothing were freed during f:
// what the process cannot exceed.
func heapPeak(f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	f()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func BenchmarkPorcupine(b *testing.B) {
	if !*withPorcu {
		b.Skip("takes minutes and gigabytes; run with -porcupine")
	}
	const limit = 30 * time.Second
	for _, s := range subjects() {
		for _, n := range []int{1_000, 3_000, 10_000, 30_000, 100_000} {
			for _, broken := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/n=%d/clients=16/broken=%v", s.name, n, broken), func(b *testing.B) {
					judge, search := s.make(16, n, broken)
					if search == nil {
						b.Skip("a lease needs operations that nobody made")
					}
					start := time.Now()
					judge()
					b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "monitor-ms")
					start = time.Now()
					result := search(limit)
					b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "porcupine-ms")
					b.ReportMetric(0, "ns/op")
					b.Logf("porcupine: %s", result)
					debug.FreeOSMemory()
				})
			}
		}
	}
}

// BenchmarkUnknowns shows how many states a sweep has to keep, and where it gives up, as
// ever more answers are lost.
func BenchmarkUnknowns(b *testing.B) {
	for _, lease := range []bool{false, true} {
		for _, clients := range []int{16, 64, 128} {
			for _, unknown := range []int{1, 10, 20, 30, 50} {
				b.Run(fmt.Sprintf("lease=%v/n=200000/clients=%d/unknown=%d%%", lease, clients, unknown), func(b *testing.B) {
					ops := simulateLock(clients, 200_000, unknown, lease)
					var rules *LeaseRules
					if lease {
						rules = &leaseRules
					}
					var s *sweep
					var v Verdict
					for b.Loop() {
						t, _ := newTenures(ops, LockRules{}, rules)
						s = newSweep(t, LockRules{})
						v = s.run()
					}
					if v.Result == Illegal {
						b.Fatal(v.Reason)
					}
					b.ReportMetric(float64(s.peak), "states")
					b.ReportMetric(float64(v.Result), "legal")
				})
			}
		}
	}
}
