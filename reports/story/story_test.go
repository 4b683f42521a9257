package story

import (
	"strings"
	"testing"

	"lockstress/history"
)

// A pause, as every trial of gc_pause records it: two clients believe, and both use
// the same unit.
func TestTell(t *testing.T) {
	const ms = 1_000_000
	at := func(ms64 int64, process int, typ history.Type, op history.Op, hold int64) history.Event {
		return history.Event{Time: ms64 * ms, Process: process, Type: typ, Op: op, Hold: hold, Key: "k"}
	}
	sold := func(e history.Event, seen int64) history.Event {
		e.Value, e.Known = seen, true
		return e
	}
	granted := at(2, 0, history.OK, history.Acquire, 1)
	granted.Deadline, granted.Fence = 501*ms, 7
	fault := at(5, history.Nemesis, history.Note, history.Fault, 0)
	fault.Node, fault.Text = "worker 0", "process stopped"
	exec := at(1, history.Witness, history.Note, history.Exec, 1)
	exec.Node, exec.Text, exec.Effect = "n1", "SET by hold 1", history.Set
	refused := at(9, 0, history.Fail, history.Release, 1)
	refused.Error = "not-held: 0"
	h := &history.History{
		Header: history.Header{Clients: 2, Locks: true, Expires: true, TTL: 500 * ms, Margin: 7 * ms, Amount: 1},
		Events: []history.Event{
			at(0, 0, history.Invoke, history.Acquire, 1), exec, granted, fault,
			at(6, 1, history.Invoke, history.Acquire, 2), at(600, 1, history.OK, history.Acquire, 2),
			sold(at(601, 1, history.OK, history.Buy, 2), 1), sold(at(602, 0, history.OK, history.Buy, 1), 1),
			at(603, 0, history.Invoke, history.Release, 1), refused,
		},
	}
	var b strings.Builder
	if err := Tell(&b, h); err != nil {
		t.Fatal(err)
	}
	want := `  1. +0.000 s  A (client 0)      asks for the lock (hold 1)
  2. +0.001 s  server n1         SET by hold 1
  3. +0.002 s  A (client 0)      has the lock (hold 1), fencing token 7, until +0.501 s
  4. +0.005 s  fault, worker 0   process stopped
  5. +0.006 s  B (client 1)      asks for the lock (hold 2)
  6. +0.600 s  B (client 1)      has the lock (hold 2)
                                 ✗ mutex: A (client 0) still believes in hold 1
  7. +0.601 s  B (client 1)      sells a unit: read 1, wrote 0
  8. +0.602 s  A (client 0)      sells a unit: read 1, wrote 0
                                 ✗ resource: hold 2 had read 1 too, and used it
  9. +0.603 s  A (client 0)      gives hold 1 back
 10. +0.009 s  A (client 0)      is told: it was not yours any more
`
	if got := b.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A client that is dead believes nothing, and a grant whose answer came too late is
// not one too many.
func TestTellAccusesNobodyWrongly(t *testing.T) {
	const ms = 1_000_000
	header := history.Header{Clients: 2, Locks: true, Expires: true, TTL: 500 * ms, Margin: 7 * ms, Amount: 1}
	event := func(at int64, process int, typ history.Type, op history.Op, hold, deadline int64) history.Event {
		return history.Event{Time: at * ms, Process: process, Type: typ, Op: op, Hold: hold, Key: "k", Deadline: deadline * ms}
	}
	for name, c := range map[string]struct {
		events   []history.Event
		want     string
		unwanted string
	}{
		"killed": {[]history.Event{
			event(0, 0, history.Invoke, history.Acquire, 1, 0), event(1, 0, history.OK, history.Acquire, 1, 500),
			event(2, 0, history.Note, history.Dead, 0, 0),
			event(3, 1, history.Invoke, history.Acquire, 2, 0), event(4, 1, history.OK, history.Acquire, 2, 504),
		}, "A (client 0)  is killed", "✗"},
		"answered late": {[]history.Event{
			event(0, 0, history.Invoke, history.Acquire, 1, 0),
			event(600, 1, history.Invoke, history.Acquire, 2, 0), event(601, 1, history.OK, history.Acquire, 2, 1100),
			event(700, 0, history.OK, history.Acquire, 1, 500),
		}, "✗ mutex", "lease"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := Tell(&b, &history.History{Header: header, Events: c.events}); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.unwanted) {
				t.Errorf("want %q in it and not %q:\n%s", c.want, c.unwanted, got)
			}
		})
	}
}
