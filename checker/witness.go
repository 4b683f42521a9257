package checker

import (
	"slices"
	"strings"

	"lockstress/history"
)

// serverLog is what one server executed on one lock key, in the order of execution.
type serverLog struct {
	node  string
	notes []exec
	// doubtful: a fault was put on this very server, so the witness may not have
	// heard everything.
	doubtful bool
}

// exec is a note of the witness, with the hold that it is about (0: unknown).
type exec struct {
	*history.Event
	hold int64
}

// witness is all that the witness wrote.
type witness struct {
	logs  map[string][]*serverLog // by key
	nodes int                     // servers that executed anything
	owner map[int]int64           // event → hold, where the note itself could not say
	// nameless: a lock was set of which nobody can tell whose it was.
	nameless bool
}

func (v *view) witness() *witness {
	w := &witness{logs: map[string][]*serverLog{}, owner: map[int]int64{}}
	faulty, nodes := map[string]bool{}, map[string]bool{}
	for _, e := range v.notes {
		switch e.Op {
		case history.Fault:
			// A clock that is set deafens nobody.
			faulty[e.Node] = faulty[e.Node] || !strings.Contains(strings.ToLower(e.Text), "clock")
		case history.Exec:
			nodes[e.Node] = true
		}
	}
	w.nodes = len(nodes)
	named := v.nameless()
	at := map[[2]string]*serverLog{}
	current := map[*serverLog]int64{}
	for i := range v.h.Events {
		e := &v.h.Events[i]
		if e.Type != history.Note || e.Op != history.Exec {
			continue
		}
		log := at[[2]string{e.Key, e.Node}]
		if log == nil {
			log = &serverLog{node: e.Node, doubtful: faulty[e.Node]}
			at[[2]string{e.Key, e.Node}] = log
			w.logs[e.Key] = append(w.logs[e.Key], log)
		}
		x := exec{e, e.Hold}
		if x.hold == 0 {
			if e.Effect == history.Set {
				x.hold = named[i]
			} else if named != nil {
				x.hold = current[log]
			}
			if x.hold != 0 {
				w.owner[i] = x.hold
			}
		}
		switch e.Effect {
		case history.Set:
			current[log] = x.hold
			w.nameless = w.nameless || x.hold == 0
		case history.Removed, history.Expired, history.Evicted:
			current[log] = 0
		}
		log.notes = append(log.notes, x)
	}
	return w
}

// stampLag is the most that a note of the witness is taken to lag behind what it
// reports, where a short lag cannot be told from a fact. It is generous: notes come
// over an idle loopback connection.
const stampLag = int64(100e6)

// nameless finds the holds of keys that a lock without owner tokens has set. On one
// server, if no acquire of a key has an unknown outcome, each granted one has set the
// key once. If then each setting falls within the time of one grant only, and each
// grant has one setting only, they belong together. Otherwise nothing is said of the
// key.
func (v *view) nameless() map[int]int64 {
	if v.h.Header.Nodes > 1 {
		return nil
	}
	sets := map[string][]int{}
	for i := range v.h.Events {
		if e := &v.h.Events[i]; e.Type == history.Note && e.Op == history.Exec && e.Effect == history.Set && e.Hold == 0 {
			sets[e.Key] = append(sets[e.Key], i)
		}
	}
	if len(sets) == 0 {
		return nil
	}
	names := map[int]int64{}
	for key, events := range sets {
		var grants []*hold
		certain := true
		for _, d := range v.holds {
			if d.key != key {
				continue
			}
			certain = certain && d.acquire.Outcome != history.Info
			if d.granted() {
				grants = append(grants, d)
			}
		}
		if !certain || len(grants) != len(events) {
			continue
		}
		found := map[int]int64{}
		taken := map[int64]bool{}
		for _, i := range events {
			t := v.h.Events[i].Time
			// grants are in order of invocation, but may end in any order.
			var candidates []*hold
			for _, d := range grants {
				if d.acquire.Invoke > t {
					break
				}
				if t <= d.acquire.Return+stampLag {
					candidates = append(candidates, d)
				}
			}
			if len(candidates) != 1 || taken[candidates[0].id] {
				break
			}
			taken[candidates[0].id] = true
			found[i] = candidates[0].id
		}
		if len(found) == len(events) {
			for i, id := range found {
				names[i] = id
			}
		}
	}
	return names
}

// removals lists, for each server on which the key of d is provably gone for good,
// when the witness knew it. Gone means: removed, expired, evicted or taken over by
// somebody else, and nothing heard of it ever after. A server is left out if the
// witness may have missed something there.
func (v *view) removals(w *witness, d *hold) []int64 {
	var all []int64
	for _, log := range w.logs[d.key] {
		if log.doubtful {
			continue
		}
		gone, there := int64(history.Never), false
		for _, x := range log.notes {
			switch {
			case x.hold == d.id && (x.Effect == history.Set || x.Effect == history.Extended):
				gone, there = history.Never, true
			case x.hold == d.id && (x.Effect == history.Removed || x.Effect == history.Expired || x.Effect == history.Evicted):
				gone, there = x.Time, false
			case there && x.Effect == history.Set && x.hold != 0 && !v.sameOwner(x.hold, d):
				gone, there = x.Time, false
			}
		}
		if gone != history.Never {
			all = append(all, gone)
		}
	}
	return all
}

func (v *view) sameOwner(id int64, d *hold) bool {
	other := v.byID[id]
	return other != nil && other.owner == d.owner
}

// servers is the number of independent servers that hold the lock.
func (v *view) servers() int { return max(v.h.Header.Nodes, 1) }

// quorum is how many of them make a grant, and blocking how many are enough to
// prevent one.
func (v *view) quorum() int   { return v.servers()/2 + 1 }
func (v *view) blocking() int { return v.servers() - v.quorum() + 1 }

// goneBefore: the key of d was provably gone before t on so many servers that no
// quorum can have held it from t on.
func (v *view) goneBefore(w *witness, d *hold, t int64) bool {
	n := 0
	for _, gone := range v.removals(w, d) {
		if gone < t {
			n++
		}
	}
	return n >= v.blocking()
}

// clockFault: some server's clock may have been tampered with, so TTLs prove nothing.
func (v *view) clockFault() bool {
	return strings.Contains(v.h.Header.Scenario, "clock") || slices.ContainsFunc(v.notes, func(e *history.Event) bool {
		return e.Op == history.Fault && strings.Contains(strings.ToLower(e.Text), "clock")
	})
}
