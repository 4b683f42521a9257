// Package story tells a history in words: a numbered timeline of who did what when,
// what the servers did, and where it broke.
package story

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lockstress/history"
)

// line is one step of a story.
type line struct {
	at   int64 // nanoseconds since the start of the trial
	who  string
	what string
	// broke says what this step broke; "" for most.
	broke string
}

// Tell writes the story of h. Sync points and refused commands of the servers are
// left out; they say nothing that the operations do not.
func Tell(w io.Writer, h *history.History) error {
	lines := steps(h)
	who := 0
	for _, l := range lines {
		who = max(who, len(l.who))
	}
	for i, l := range lines {
		if _, err := fmt.Fprintf(w, "%3d. %s  %-*s  %s\n", i+1, Moment(l.at), who, l.who, l.what); err != nil {
			return err
		}
		if l.broke != "" {
			if _, err := fmt.Fprintf(w, "     %s  %-*s  ✗ %s\n", strings.Repeat(" ", len(Moment(l.at))), who, "", l.broke); err != nil {
				return err
			}
		}
	}
	return nil
}

// Moment shows a time since the start of a trial.
func Moment(ns int64) string { return fmt.Sprintf("+%.3f s", time.Duration(ns).Seconds()) }

// teller walks through the events and remembers who believes what.
type teller struct {
	header *history.Header
	holds  map[int64]*hold // believed at present
	clean  int             // grants so far
	seen   map[int64]int64 // value seen by a sale → the hold that sold it
}

type hold struct {
	client   int
	id       int64
	key      string
	until    int64 // the earliest end of its lease, as far as is known
	released bool
}

func steps(h *history.History) []line {
	t := teller{header: &h.Header, holds: map[int64]*hold{}, seen: map[int64]int64{}}
	asked := map[int64]int64{} // hold → invocation of acquire or extend
	var lines []line
	for i := range h.Events {
		e := &h.Events[i]
		if e.Type == history.Invoke && (e.Op == history.Acquire || e.Op == history.Extend) {
			asked[e.Hold] = e.Time
		}
		l := line{at: e.Time}
		l.who, l.what, l.broke = t.tell(e, asked)
		if l.what != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// Name is how stories call a client: A, B, C … for the few of a choreography.
func Name(client, clients int) string {
	if clients <= 26 {
		return fmt.Sprintf("%c (client %d)", 'A'+client, client)
	}
	return fmt.Sprintf("client %d", client)
}

func (t *teller) tell(e *history.Event, asked map[int64]int64) (who, what, broke string) {
	client, role := t.header.Client(e.Process)
	switch role {
	case history.NemesisRole:
		return t.nemesis(e)
	case history.WitnessRole:
		return t.witness(e)
	case history.AuditorRole:
		if e.Type == history.OK {
			return "auditor", fmt.Sprintf("reads the resource: %d left", e.Value), ""
		}
		return "", "", ""
	}
	who = Name(client, t.header.Clients)
	if role == history.HeartbeatRole {
		who += " heartbeat"
	}
	switch e.Op {
	case history.Acquire:
		what, broke = t.acquire(e, client, asked)
	case history.Extend:
		what = t.extend(e, asked)
	case history.Release:
		what = t.release(e)
	case history.Buy, history.Withdraw:
		what, broke = t.work(e)
	case history.Lost:
		delete(t.holds, e.Hold)
		what = fmt.Sprintf("learns that hold %d is lost", e.Hold)
	case history.Dead:
		for id, h := range t.holds {
			if h.client == client {
				delete(t.holds, id)
			}
		}
		what = "is killed"
	}
	return who, what, broke
}

func (t *teller) acquire(e *history.Event, client int, asked map[int64]int64) (what, broke string) {
	switch e.Type {
	case history.Invoke:
		return fmt.Sprintf("asks for the lock (hold %d)", e.Hold), ""
	case history.Fail:
		return fmt.Sprintf("does not get it: %s", e.Error), ""
	case history.Info:
		return fmt.Sprintf("does not learn whether it got it: %s", e.Error), ""
	}
	what = fmt.Sprintf("has the lock (hold %d)", e.Hold)
	if e.Fence != 0 {
		what += fmt.Sprintf(", fencing token %d", e.Fence)
	}
	if e.Deadline != 0 {
		what += fmt.Sprintf(", until %s", Moment(e.Deadline))
	}
	var breaks []string
	for _, other := range t.holds {
		if other.key != e.Key || !t.header.Locks {
			continue
		}
		breaks = append(breaks, fmt.Sprintf("mutex: %s still believes in hold %d", Name(other.client, t.header.Clients), other.id))
		switch {
		case !t.header.Expires:
			breaks = append(breaks, fmt.Sprintf("lease: hold %d was good for ever", other.id))
		case e.Time > t.until(e, asked):
			// The answer came when this lease was over: it may have been
			// granted before the other was.
		case e.Time < other.until:
			breaks = append(breaks, fmt.Sprintf("lease: hold %d was good until %s at least", other.id, Moment(other.until)))
		}
	}
	t.holds[e.Hold] = &hold{client: client, id: e.Hold, key: e.Key, until: t.until(e, asked)}
	return what, strings.Join(breaks, "; ")
}

// until is the earliest moment at which a lease can end that e begins or prolongs.
func (t *teller) until(e *history.Event, asked map[int64]int64) int64 {
	if e.Deadline != 0 {
		return e.Deadline - t.header.Margin
	}
	return asked[e.Hold] + t.header.TTL - t.header.Margin
}

func (t *teller) extend(e *history.Event, asked map[int64]int64) string {
	switch e.Type {
	case history.OK:
		if h := t.holds[e.Hold]; h != nil {
			h.until = t.until(e, asked)
		}
		return fmt.Sprintf("extends hold %d until %s", e.Hold, Moment(e.Deadline))
	case history.Fail, history.Info:
		return fmt.Sprintf("cannot extend hold %d: %s", e.Hold, e.Error)
	}
	return "" // the outcome tells enough
}

func (t *teller) release(e *history.Event) string {
	switch e.Type {
	case history.Invoke:
		delete(t.holds, e.Hold)
		return fmt.Sprintf("gives hold %d back", e.Hold)
	case history.OK:
		return "is told: it was yours, and is free now"
	case history.Fail:
		if e.Code() == history.NotHeld {
			return "is told: it was not yours any more"
		}
		return fmt.Sprintf("is refused: %s", e.Error)
	}
	return fmt.Sprintf("does not learn whether that worked: %s", e.Error)
}

func (t *teller) work(e *history.Event) (what, broke string) {
	verb, done := "buy one unit", "sells a unit"
	if e.Op == history.Withdraw {
		verb = fmt.Sprintf("withdraw %d", t.header.Amount)
		done = fmt.Sprintf("withdraws %d", t.header.Amount)
	}
	switch e.Type {
	case history.Invoke:
		return "begins to " + verb, ""
	case history.OK:
		what = fmt.Sprintf("%s: read %d, wrote %d", done, e.Value, e.Value-t.header.Amount)
		if first, ok := t.seen[e.Value]; ok {
			broke = fmt.Sprintf("resource: hold %d had read %d too, and used it", first, e.Value)
		}
		t.seen[e.Value] = e.Hold
		return what, broke
	case history.Fail:
		switch e.Code() {
		case history.SoldOut:
			return fmt.Sprintf("finds only %d left, and writes nothing", e.Value), ""
		case history.Stale:
			return fmt.Sprintf("is refused by the guard: its fencing token %d is stale; nothing is written", e.Fence), ""
		case history.GaveUp:
			return "knows that its lock is lost, and writes nothing", ""
		}
		return fmt.Sprintf("could not %s: %s", verb, e.Error), ""
	}
	return fmt.Sprintf("does not learn whether its write happened: %s", e.Error), ""
}

func (t *teller) nemesis(e *history.Event) (who, what, broke string) {
	who = "fault"
	if e.Node != "" {
		who = "fault, " + e.Node
	}
	switch e.Op {
	case history.Fault:
		return who, e.Text, ""
	case history.Heal:
		return who, "over: " + e.Text, ""
	}
	return "", "", "" // Bite and Miss speak of the whole
}

func (t *teller) witness(e *history.Event) (who, what, broke string) {
	if e.Effect == history.Denied {
		return "", "", ""
	}
	return "server " + e.Node, e.Text, ""
}
