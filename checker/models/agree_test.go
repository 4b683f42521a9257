package models

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"lockstress/checker/monitor"
	"lockstress/history"
	"lockstress/history/jepsen"
)

// randomHistory plays a model with a few processes, and then tells some lies.
func randomHistory(m *Model, r *rand.Rand, size int, o *Options) *jepsen.History {
	type client struct {
		process int64
		call    call
		word    string
		input   jepsen.Value
		open    bool
		applied bool
		legal   bool
		output  jepsen.Value
	}
	clients := make([]client, 2+r.IntN(3))
	for i := range clients {
		clients[i].process = int64(i)
	}
	next := int64(len(clients))
	words := slices.Sorted(maps.Keys(m.words))
	if m.words["add"] != 0 && r.IntN(2) == 0 {
		words = []string{"add", "inc", "read"}
	}
	if m.words["add"] != 0 {
		words = append(words, "read", "read", "read")
	}
	s := m.start(o)
	h := &jepsen.History{}
	now, newest := int64(0), int64(0)
	event := func(c *client, typ history.Type, v jepsen.Value) {
		now += int64(r.IntN(3))
		h.Events = append(h.Events, jepsen.Event{
			Position: len(h.Events), Line: len(h.Events) + 1, Index: int64(len(h.Events)),
			Process: c.process, Type: typ, F: c.word, Value: v, Time: now, Timed: true,
		})
	}
	invoked := 0
	for invoked < size || slices.ContainsFunc(clients, func(c client) bool { return c.open }) {
		c := &clients[r.IntN(len(clients))]
		switch {
		case !c.open && invoked < size:
			invoked++
			c.word = words[r.IntN(len(words))]
			c.call = call{kind: m.words[c.word], owner: int32(c.process), a: int64(r.IntN(3)), b: int64(r.IntN(3))}
			c.input, c.output, c.open, c.applied = nil, nil, true, false
			switch c.call.kind {
			case write:
				c.input = c.call.a
			case cas:
				c.input = []jepsen.Value{c.call.a, c.call.b}
			case add, subtract:
				c.call.a = 1
				if r.IntN(3) == 0 && size%4 == 0 {
					c.call.a = int64(r.IntN(3))
				}
				c.input = c.call.a
				if c.call.kind == subtract {
					c.call.kind, c.call.a = add, -c.call.a
				}
			case acquire, release:
				c.call.a = 0
				if m.Name == "semaphore" && size%2 == 0 && r.IntN(3) == 0 {
					c.call.a = int64(1 + r.IntN(2))
					c.input = c.call.a
				}
			}
			c.call.invoke = now
			event(c, history.Invoke, c.input)
			c.call.invoke = now
		case c.open && !c.applied:
			c.applied = true
			if m.timed && s.holder != nobody && s.n <= now && r.IntN(2) == 0 {
				s = state{holder: nobody}
			}
			if m.Name == "fenced-mutex" && c.call.kind == acquire {
				c.call.token = newest + int64(1+r.IntN(2))
			}
			if c.call.kind == read {
				c.output, c.legal = s.n, true
				continue
			}
			was := s
			if s, c.legal = m.apply(s, &c.call, o); !c.legal {
				s = was
			} else if c.call.token != 0 {
				newest = c.call.token
				c.output = newest
			}
		case c.open:
			c.open = false
			typ, v := history.OK, c.output
			if !c.legal {
				typ = history.Fail
			}
			switch r.IntN(14) {
			case 0, 1:
				typ, v = history.Info, nil
			case 2:
				if typ == history.OK && c.call.kind == read {
					v = c.output.(int64) + int64(r.IntN(4)) - 1
				} else if c.call.token != 0 {
					v = int64(1 + r.IntN(4))
				} else {
					typ = history.OK + history.Fail - typ
				}
			case 3:
				c.process, c.open = next, false // it is never heard of again
				next++
				continue
			}
			event(c, typ, v)
			if typ == history.Info && r.IntN(8) > 0 {
				c.process = next
				next++
			}
		}
	}
	h.Total = len(h.Events)
	return h
}

// TestMonitorsAgreeWithSearch: on random small histories the monitors and Porcupine say
// the same, the shortest illegal prefixes end alike, and a counterexample is wrong while
// any less of it is legal.
func TestMonitorsAgreeWithSearch(t *testing.T) {
	n := 500
	if testing.Short() {
		n = 300
	}
	if s := os.Getenv("STRESS_MODELS_RANDOM"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(4, uint64(len(m.Name))))
			results := map[monitor.Result]int{}
			monitored := 0
			for i := range n {
				o := Options{Permits: 1 + r.IntN(2), Depth: r.IntN(3), Timeout: 10 * time.Second}
				if m.timed {
					o.TTL, o.Margin = time.Duration(1+r.IntN(8)), time.Duration(r.IntN(2))
				}
				if m.words["write"] != 0 || m.words["add"] != 0 {
					o.Initial = "0"
				}
				if r.IntN(4) == 0 {
					o.Fail = Unsure
				}
				h := randomHistory(&m, r, 1+r.IntN(12), &o)
				show := func() string {
					s := fmt.Sprintf("%+v\n", o)
					for _, e := range h.Events {
						s += fmt.Sprintf("%d t%d p%d %v %s %s\n", e.Position, e.Time, e.Process, e.Type, e.F, jepsen.Text(e.Value))
					}
					return s
				}
				a := check(t, m.Name, h, o)
				o.Engine = Search
				b := check(t, m.Name, h, o)
				if a.Result != b.Result || a.Result == monitor.Unknown {
					t.Fatalf("history %d: %v (%s) by %s, %v (%s) by %s\n%s", i, a.Result, a.Reason, a.Engine, b.Result, b.Reason, b.Engine, show())
				}
				results[a.Result]++
				if a.Engine == Monitor {
					monitored++
				}
				if a.Result == monitor.Legal {
					continue
				}
				x, y := a.Counterexample, b.Counterexample
				if x.Events != y.Events || !x.Shortest || !y.Shortest {
					t.Fatalf("history %d: the shortest illegal prefix has %d events by %s, %d by %s\n%s", i, x.Events, a.Engine, y.Events, b.Engine, show())
				}
				part := *h
				part.Events = h.Events[:x.Events-1]
				if v := check(t, m.Name, &part, o); v.Result != monitor.Legal {
					t.Fatalf("history %d: one event less than the shortest illegal prefix is %v\n%s", i, v.Result, show())
				}
				if len(x.Steps) == 0 {
					t.Fatalf("history %d: no counterexample\n%s", i, show())
				}
			}
			t.Logf("%v, %d by the monitor", results, monitored)
			if results[monitor.Legal] < n/20 || results[monitor.Illegal] < n/20 {
				t.Errorf("the histories are all alike: %v", results)
			}
			if m.monitor != nil && monitored < n/4 {
				t.Errorf("the monitor decided %d of %d only", monitored, n)
			}
		})
	}
}
