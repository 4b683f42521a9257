package models

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstress/checker/monitor"
	"lockstress/history"
	"lockstress/history/jepsen"
)

// TestLeavingOutIsSound: what a counterexample leaves out – everything before a moment at
// which the state is certain, and units – leaves a legal history legal. If it did not,
// the operations shown would prove nothing.
func TestLeavingOutIsSound(t *testing.T) {
	n := 800
	if testing.Short() {
		n = 200
	}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(5, uint64(len(m.Name))))
			cuts, units := 0, 0
			for range n {
				o := Options{Permits: 1 + r.IntN(2), Depth: r.IntN(3), Engine: Search}
				if m.Name == "mutex" {
					o.Permits = 1
				}
				if m.timed {
					o.TTL = time.Duration(1 + r.IntN(8))
				}
				if err := o.complete(); err != nil {
					t.Fatal(err)
				}
				h := randomHistory(&m, r, 1+r.IntN(9), &o)
				if m.words["write"] != 0 {
					o.Initial = "0"
				}
				part, err := translate(&m, h, &o)
				if err != nil {
					t.Fatal(err)
				}
				calls := part.prefix(1 + r.IntN(len(h.Events)))
				legal := func(calls []call, s state) bool {
					v, _ := m.judge(t.Context(), calls, s, &o)
					return v.Result == monitor.Legal
				}
				if !legal(calls, part.start) {
					continue
				}
				if m.cuts != nil {
					for _, x := range m.cuts(calls, part.start, &o) {
						cuts++
						if !legal(x.rest(calls), x.state) {
							t.Fatalf("legal, but not after %d with state %+v:\n%+v", x.after, x.state, calls)
						}
					}
				}
				if m.units == nil {
					continue
				}
				all := m.units(calls)
				for range 4 {
					gone := make([]bool, len(calls))
					for _, unit := range all {
						if r.IntN(2) == 0 {
							units++
							for _, i := range unit {
								gone[i] = true
							}
						}
					}
					if !legal(rest(calls, gone), part.start) {
						t.Fatalf("legal, but not without %v of\n%+v", gone, calls)
					}
				}
			}
			t.Logf("%d cuts, %d units left out", cuts, units)
			if m.cuts != nil && cuts < n/5 || m.units != nil && units < n/4 {
				t.Errorf("%d cuts and %d units: too few", cuts, units)
			}
		})
	}
}

// line is an event: process, type, f, value.
type line struct {
	process int64
	typ     history.Type
	f       string
	value   jepsen.Value
}

func script(lines ...line) *jepsen.History {
	h := &jepsen.History{Format: "EDN", Total: len(lines)}
	for i, l := range lines {
		h.Events = append(h.Events, jepsen.Event{
			Position: i, Line: i + 1, Index: int64(i), Process: l.process, Type: l.typ, F: l.f, Value: l.value,
			Time: int64(i) * int64(time.Second), Timed: true,
		})
	}
	return h
}

// done is an operation of a process that nothing overlaps.
func done(process int64, f string, in, out jepsen.Value) []line {
	return []line{{process, history.Invoke, f, in}, {process, history.OK, f, out}}
}

func TestModels(t *testing.T) {
	fence := func(n int64) jepsen.Value { return map[string]jepsen.Value{"fence": n} }
	pair := []jepsen.Value{int64(1), int64(2)}
	const good, bad = monitor.Legal, monitor.Illegal
	for name, c := range map[string]struct {
		model string
		o     Options
		want  monitor.Result
		lines [][]line
	}{
		"anybody releases a mutex":      {"mutex", Options{}, good, [][]line{done(0, "acquire", nil, nil), done(1, "release", nil, nil), done(1, "acquire", nil, nil)}},
		"not an owned one":              {"owner-mutex", Options{}, bad, [][]line{done(0, "acquire", nil, nil), done(1, "release", nil, nil)}},
		"two holders":                   {"mutex", Options{}, bad, [][]line{done(0, "acquire", nil, nil), done(1, "lock", nil, nil)}},
		"two permits":                   {"semaphore", Options{Permits: 2}, good, [][]line{done(0, "acquire", nil, nil), done(1, "acquire", nil, nil)}},
		"three of two permits":          {"semaphore", Options{Permits: 2}, bad, [][]line{done(0, "acquire", nil, nil), done(1, "acquire", int64(2), nil)}},
		"no re-entry":                   {"owner-mutex", Options{}, bad, [][]line{done(0, "acquire", nil, nil), done(0, "acquire", nil, nil)}},
		"re-entry":                      {"reentrant-mutex", Options{}, good, [][]line{done(0, "acquire", nil, nil), done(0, "acquire", nil, nil), done(0, "release", nil, nil), done(0, "release", nil, nil), done(1, "acquire", nil, nil)}},
		"released once of twice":        {"reentrant-mutex", Options{}, bad, [][]line{done(0, "acquire", nil, nil), done(0, "acquire", nil, nil), done(0, "release", nil, nil), done(1, "acquire", nil, nil)}},
		"too deep":                      {"reentrant-mutex", Options{Depth: 2}, bad, [][]line{done(0, "acquire", nil, nil), done(0, "acquire", nil, nil), done(0, "acquire", nil, nil)}},
		"tokens rise":                   {"fenced-mutex", Options{}, good, [][]line{done(0, "acquire", nil, int64(3)), done(0, "release", nil, nil), done(1, "acquire", nil, fence(4))}},
		"tokens fall":                   {"fenced-mutex", Options{}, bad, [][]line{done(0, "acquire", nil, fence(4)), done(0, "release", nil, nil), done(1, "acquire", nil, fence(3))}},
		"an owned mutex has no tokens":  {"owner-mutex", Options{}, good, [][]line{done(0, "acquire", nil, int64(4)), done(0, "release", nil, nil), done(1, "acquire", nil, int64(3))}},
		"a lease that ended":            {"lease", Options{TTL: 3 * time.Second}, good, [][]line{done(0, "acquire", nil, nil), done(2, "acquire", nil, nil)}},
		"a lease that had not":          {"lease", Options{TTL: 4 * time.Second}, bad, [][]line{done(0, "acquire", nil, nil), done(2, "acquire", nil, nil)}},
		"but for its margin":            {"lease", Options{TTL: 4 * time.Second, Margin: time.Second}, good, [][]line{done(0, "acquire", nil, nil), done(2, "acquire", nil, nil)}},
		"a lease that was extended":     {"lease", Options{TTL: 4 * time.Second}, bad, [][]line{done(0, "acquire", nil, nil), done(0, "renew", nil, nil), done(2, "acquire", nil, nil)}},
		"adding":                        {"counter", Options{Initial: "5"}, good, [][]line{done(0, "add", int64(2), nil), done(1, "dec", nil, nil), done(0, "read", nil, int64(6))}},
		"adding wrongly":                {"counter", Options{}, bad, [][]line{done(0, "inc", nil, nil), done(0, "inc", nil, nil), done(0, "read", nil, int64(1))}},
		"a counter that was not":        {"counter", Options{}, bad, [][]line{done(0, "read", nil, int64(1))}},
		"a register":                    {"register", Options{Initial: ":a"}, good, [][]line{done(0, "read", nil, ":a"), done(0, "write", "b", "b"), done(1, "read", nil, "b")}},
		"stale":                         {"register", Options{Initial: ":a"}, bad, [][]line{done(0, "write", "b", "b"), done(1, "read", nil, ":a")}},
		"keywords are not strings":      {"register", Options{Initial: ":a"}, bad, [][]line{done(1, "read", nil, "a")}},
		"nil says nothing":              {"register", Options{Initial: "1"}, good, [][]line{done(1, "read", nil, nil)}},
		"nil is a value":                {"register", Options{Initial: "1", NilRead: Empty}, bad, [][]line{done(1, "read", nil, nil)}},
		"a register without an initial": {"register", Options{NilRead: Empty}, good, [][]line{done(1, "read", nil, nil)}},
		"cas":                           {"cas-register", Options{Initial: "1"}, good, [][]line{done(0, "cas", pair, pair), done(0, "read", nil, int64(2))}},
		"cas from another value":        {"cas-register", Options{Initial: "2"}, bad, [][]line{done(0, "cas", pair, true)}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, engine := range []Engine{Auto, Search} {
				c.o.Engine = engine
				v := check(t, c.model, script(slices.Concat(c.lines...)...), c.o)
				if v.Result != c.want {
					t.Errorf("by %s: %v (%s), want %v", v.Engine, v.Result, v.Reason, c.want)
				}
			}
		})
	}
}

// TestOutcomes: what :fail and :info mean, by rule.
func TestOutcomes(t *testing.T) {
	after := func(typ history.Type, f string) *jepsen.History {
		return script(slices.Concat(done(0, "acquire", nil, nil),
			[]line{{0, history.Invoke, f, nil}, {0, typ, f, nil}}, done(1, "acquire", nil, nil))...)
	}
	for _, c := range []struct {
		typ  history.Type
		o    Options
		want monitor.Result
	}{
		{history.OK, Options{}, monitor.Legal},
		{history.Info, Options{}, monitor.Legal},
		{history.Fail, Options{}, monitor.Illegal},
		{history.Fail, Options{Fail: Unsure}, monitor.Legal},
	} {
		for _, model := range []string{"mutex", "owner-mutex", "reentrant-mutex", "fenced-mutex", "semaphore"} {
			if v := check(t, model, after(c.typ, "release"), c.o); v.Result != c.want {
				t.Errorf("%s, %v, %+v: %v (%s), want %v", model, c.typ, c.o, v.Result, v.Reason, c.want)
			}
		}
	}
}

// TestUnsureReleaseMayComeLate: a release of unknown outcome, sent before the process even
// had the lock, may free it later. A monitor of holds would not think of it.
func TestUnsureReleaseMayComeLate(t *testing.T) {
	for _, model := range []string{"owner-mutex", "reentrant-mutex", "fenced-mutex", "lease"} {
		h := script(slices.Concat([]line{{0, history.Invoke, "release", nil}, {0, history.Info, "release", nil}},
			done(0, "acquire", nil, nil), done(1, "acquire", nil, nil))...)
		if v := check(t, model, h, Options{TTL: time.Hour}); v.Result != monitor.Legal || v.Engine != Search {
			t.Errorf("%s: %v by %s", model, v.Result, v.Engine)
		}
	}
}

// TestRefused: what a model cannot read is an error that names the line, never a verdict.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		model string
		o     Options
		lines []line
		want  string
	}{
		"unknown word":       {"mutex", Options{}, done(0, "read", nil, nil), `line 1, operation 0: the model mutex knows no "read"`},
		"value of another":   {"register", Options{}, done(0, "write", int64(1), int64(2)), "line 1, operation 0: the write is invoked with 1 and completed with 2"},
		"value too late":     {"register", Options{}, done(0, "write", nil, int64(2)), "must be on its invocation"},
		"no pair":            {"cas-register", Options{}, done(0, "cas", int64(1), nil), "not [from to]"},
		"no number":          {"counter", Options{}, done(0, "read", nil, "x"), `line 2, operation 1: a read of a counter returns "x"`},
		"initial of a mutex": {"mutex", Options{Initial: "1"}, done(0, "acquire", nil, nil), "no initial value"},
		"initial":            {"counter", Options{Initial: "x"}, nil, `"x"`},
		"no TTL":             {"lease", Options{}, nil, "--ttl"},
		"rule":               {"mutex", Options{Fail: "perhaps"}, nil, `"perhaps"`},
		"permits":            {"semaphore", Options{Permits: -1}, nil, "-1 permits"},
	} {
		m, err := ByName(c.model)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Check(t.Context(), script(c.lines...), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	untimed := script(done(0, "acquire", nil, nil)...)
	untimed.Events[1].Timed = false
	lease, _ := ByName("lease")
	if _, err := lease.Check(t.Context(), untimed, Options{TTL: time.Second}); err == nil || !strings.Contains(err.Error(), "line 2, has no :time") {
		t.Errorf("a lease without times: %v", err)
	}
	if _, err := ByName("mutx"); err == nil || !strings.Contains(err.Error(), "did you mean mutex?") {
		t.Errorf("mutx: %v", err)
	}
}

// TestNotDecidedIsUnknown: a search that ends too early has no verdict, but a reason.
func TestNotDecidedIsUnknown(t *testing.T) {
	var lines []line
	for p := range int64(40) {
		lines = append(lines, line{p, history.Invoke, "write", p})
	}
	lines = append(lines, done(100, "read", nil, int64(200))...)
	h := script(lines...)
	for _, o := range []Options{{Timeout: 50 * time.Millisecond}, {Memory: 100 << 10, Timeout: time.Minute}} {
		v := check(t, "register", h, o)
		if v.Result != monitor.Unknown || v.Reason == "" || v.Counterexample != nil {
			t.Errorf("%+v: %v (%s)", o, v.Result, v.Reason)
		}
	}
	if v := check(t, "register", h, Options{Engine: Monitor}); v.Result != monitor.Unknown {
		t.Errorf("a register has no monitor, but it says %v", v.Result)
	}
}

// TestLongHistories: the monitors judge a million events, and find where legality ends.
func TestLongHistories(t *testing.T) {
	n := 20_000
	for _, model := range []string{"mutex", "owner-mutex", "reentrant-mutex", "fenced-mutex", "lease", "semaphore"} {
		var lines []line
		for i := range int64(n) {
			p := i % 16
			lines = append(lines, done(p, "acquire", nil, i+1)...)
			lines = append(lines, done(p, "release", nil, nil)...)
		}
		at := len(lines) / 2
		o := Options{TTL: time.Hour, Timeout: time.Second}
		if v := check(t, model, script(lines...), o); v.Result != monitor.Legal || v.Engine != Monitor {
			t.Errorf("%s: %v by %s (%s)", model, v.Result, v.Engine, v.Reason)
		}
		broken := slices.Insert(slices.Clone(lines), at+2, done(77, "acquire", nil, int64(n/2+1))...)
		v := check(t, model, script(broken...), o)
		if v.Result != monitor.Illegal || v.Counterexample.Events != at+4 || !v.Counterexample.Shortest {
			t.Errorf("%s: %v, %+v", model, v.Result, v.Counterexample)
			continue
		}
		// Nothing but the two grants is left, or one and the state.
		if steps := len(v.Counterexample.Steps); steps < 1 || steps > 2 {
			t.Errorf("%s: %d steps", model, steps)
		}
	}
}

func TestGuess(t *testing.T) {
	for want, lines := range map[string][]line{
		"mutex":        done(0, "acquire", nil, nil),
		"fenced-mutex": done(0, "acquire", nil, int64(3)),
		"lease":        append(done(0, "acquire", nil, nil), done(0, "renew", nil, nil)...),
		"register":     done(0, "write", int64(1), nil),
		"cas-register": done(0, "cas", []jepsen.Value{int64(1), int64(2)}, nil),
		"counter":      done(0, "inc", nil, nil),
		"":             done(0, "enqueue", nil, nil),
	} {
		if got := Guess(script(lines...)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
