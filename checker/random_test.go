package checker

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
	"lockstress/results"
)

var randomHistories = flag.Int("random", 20_000, "random histories for each property")

// The tests of this file compare the judges with a brute force that knows nothing of
// them: it reads the operations of a history and tries every order, unknown outcomes
// both ways.

// brute is an operation for the brute force: it happens at one moment of [from, to].
// An optional one need not happen.
type brute struct {
	from, to int64
	optional bool
	apply    func(state any) (any, bool)
}

// legal tries all orders.
func legal(ops []brute, initial any) bool {
	type key struct {
		done  uint64
		state any
	}
	tried := map[key]bool{}
	var try func(done uint64, state any) bool
	try = func(done uint64, state any) bool {
		if tried[key{done, state}] {
			return false
		}
		tried[key{done, state}] = true
		// What comes next must not have to come after an operation that is over by then.
		first := int64(history.Never)
		all := true
		for i, op := range ops {
			if done&(1<<i) == 0 {
				first = min(first, op.to)
				all = all && op.optional
			}
		}
		if all {
			return true
		}
		for i, op := range ops {
			if done&(1<<i) != 0 || op.from > first {
				continue
			}
			if next, ok := op.apply(state); ok && try(done|1<<i, next) {
				return true
			}
		}
		return false
	}
	return try(0, initial)
}

// lockState of the brute force: who holds, and for each hold (at most 8) whether it is
// held and from which extension its lease is.
type lockState struct {
	owner int
	held  [8]bool
	lease [8]int
}

func (s lockState) free() bool { return s.held == [8]bool{} }

// bruteLock decides mutex or lease by trying everything. Each client has one life in
// these histories or is numbered anew by the generator, see lives.
func bruteLock(t *testing.T, h *history.History, lease bool, lives func(op *history.Operation) int) bool {
	t.Helper()
	all, err := h.Operations()
	if err != nil {
		t.Fatal(err)
	}
	end := h.Events[len(h.Events)-1].Time
	lost := map[int64]int64{}
	var deaths []history.Event
	for _, e := range h.Events {
		if e.Op == history.Lost {
			if _, ok := lost[e.Hold]; !ok {
				lost[e.Hold] = e.Time
			}
		}
		if e.Op == history.Dead {
			deaths = append(deaths, e)
		}
	}
	var ops []brute
	slot := map[int64]int{}
	for i := range all {
		a := &all[i]
		if a.Op != history.Acquire || a.Outcome == history.Fail {
			continue
		}
		// Belief, by its definition.
		ends := end
		if at, ok := lost[a.Hold]; ok {
			ends = min(ends, at)
		}
		for _, d := range deaths {
			if lives(a) == lives(&history.Operation{Process: d.Process, Invoke: d.Time}) && d.Time >= a.Invoke {
				ends = min(ends, d.Time)
			}
		}
		for j := range all {
			if all[j].Op == history.Release && all[j].Hold == a.Hold {
				ends = min(ends, all[j].Invoke)
			}
		}
		if !lease && (a.Outcome == history.OK && ends <= a.Return) {
			continue // it never believed
		}
		n := len(slot)
		slot[a.Hold] = n
		owner := lives(a) + 1
		ops = append(ops, brute{a.Invoke, a.Return, a.Outcome == history.Info, func(state any) (any, bool) {
			s := state.(lockState)
			if !s.free() && s.owner != owner {
				return s, false
			}
			s.owner, s.held[n], s.lease[n] = owner, true, 0
			return s, true
		}})
		release := func(state any) (any, bool) {
			s := state.(lockState)
			s.held[n] = false
			if s.free() {
				s.owner = 0
			}
			return s, true
		}
		if !lease {
			if ends < end {
				ops = append(ops, brute{ends, history.Never, true, release})
			}
			continue
		}
		if at, ok := lost[a.Hold]; ok {
			ops = append(ops, brute{at, history.Never, true, release})
		}
		// Segments by invocation.
		segments := []*history.Operation{a}
		for j := range all {
			o := &all[j]
			if o.Hold == a.Hold && o.Op == history.Release {
				ops = append(ops, brute{o.Invoke, history.Never, true, release})
			}
			if o.Hold == a.Hold && o.Op == history.Extend && o.Outcome != history.Fail && o.Return >= a.Invoke {
				segments = append(segments, o)
			}
		}
		for k, o := range segments {
			if k > 0 {
				ops = append(ops, brute{o.Invoke, o.Return, o.Outcome == history.Info, func(state any) (any, bool) {
					s := state.(lockState)
					if !s.held[n] {
						return s, false
					}
					s.lease[n] = max(s.lease[n], k)
					return s, true
				}})
			}
			if h.Header.Expires {
				ops = append(ops, brute{o.Invoke + h.Header.TTL - h.Header.Margin, history.Never, true, func(state any) (any, bool) {
					s := state.(lockState)
					if s.held[n] && s.lease[n] == k {
						return release(s)
					}
					return s, true
				}})
			}
		}
	}
	return legal(ops, lockState{})
}

// randomLock makes a small history of a lock that is right or wrong at random, with
// many equal times.
func randomLock(r *rand.Rand) *history.History {
	for {
		h := tryRandomLock(r)
		if _, err := h.Operations(); err == nil && len(h.Events) > 0 {
			return h
		}
	}
}

// tryRandomLock may let a heartbeat have two extensions open at once.
func tryRandomLock(r *rand.Rand) *history.History {
	header := lockHeader
	header.TTL, header.Margin = 8+r.Int64N(10), r.Int64N(3)
	header.Expires = r.IntN(5) > 0
	var parts [][]history.Event
	hold := int64(0)
	span := 8 + r.Int64N(40)
	for c := range header.Clients {
		var events []history.Event
		generation := 0
		now := r.Int64N(span)
		op := func(role history.Role, kind history.Op, id int64, from int64) (outcome history.Type, to int64) {
			e := history.Event{Time: from, Process: header.Process(c, role, generation), Type: history.Invoke, Op: kind, Key: "k", Hold: id}
			events = append(events, e)
			e.Time += r.Int64N(6)
			switch n := r.IntN(10); {
			case n < 7:
				e.Type = history.OK
			case n < 8:
				e.Type, e.Error = history.Fail, history.NotHeld
			case n < 9:
				e.Type = history.Info
				generation++
			default: // left open
				generation++
				return history.Info, e.Time
			}
			events = append(events, e)
			return e.Type, e.Time
		}
		for range 1 + r.IntN(2) {
			if hold == 4 {
				break
			}
			hold++
			id := hold
			asked := now
			outcome, at := op(history.ClientRole, history.Acquire, id, now)
			now = at + r.Int64N(4)
			if outcome != history.OK {
				continue
			}
			if r.IntN(4) == 0 {
				_, now = op(history.HeartbeatRole, history.Extend, id, now)
				now += r.Int64N(10)
			}
			switch r.IntN(10) {
			case 0:
				events = append(events, history.Event{Time: now, Process: header.Process(c, history.HeartbeatRole, generation), Type: history.Note, Op: history.Lost, Hold: id, Key: "k"})
			case 1:
				events = append(events, history.Event{Time: now, Process: header.Process(c, history.ClientRole, generation), Type: history.Note, Op: history.Dead})
				generation++
				now++
				continue
			}
			if r.IntN(6) > 0 {
				_, now = op(history.ClientRole, history.Release, id, now)
			}
			if r.IntN(5) == 0 { // a heartbeat that came early, or late
				op(history.HeartbeatRole, history.Extend, id, asked+r.Int64N(now-asked+8))
			}
			now += r.Int64N(span / 2)
		}
		// Notes of the nemesis do not stand in the order of the client's own.
		parts = append(parts, events)
	}
	return history.Merge(header, parts...)
}

// livesOf numbers the lives of clients: a client is somebody else once it was killed.
func livesOf(h *history.History) func(op *history.Operation) int {
	return func(op *history.Operation) int {
		c, _ := h.Header.Client(op.Process)
		n := 0
		for _, e := range h.Events {
			if e.Op != history.Dead {
				continue
			}
			if d, _ := h.Header.Client(e.Process); d == c && e.Time < op.Invoke {
				n++
			}
		}
		return c + 10*n
	}
}

func TestRandomLocks(t *testing.T) {
	seen := map[string]map[results.Verdict]int{"mutex": {}, "lease": {}}
	for n := range histories(t) {
		r := rand.New(rand.NewPCG(uint64(n), 11))
		h := randomLock(r)
		v, err := newView(h)
		if err != nil {
			t.Fatalf("history %d: %v\n%s", n, err, show(h))
		}
		var report *Report
		if n%4 == 0 {
			report = check(t, h) // and all that this looks at
		} else if report, err = Check(t.Context(), h, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"mutex", "lease"} {
			want := bruteLock(t, h, name == "lease", livesOf(h))
			f, _ := report.Finding(name)
			seen[name][f.Verdict]++
			if f.Verdict != map[bool]results.Verdict{true: holds, false: bad}[want] {
				t.Fatalf("history %d: %s is %s (%s), by brute force legal is %v\n%s", n, name, f.Verdict, f.Reason, want, show(h))
			}
			if n%4 == 0 && f.Verdict == bad {
				minimalHolds(t, *f, name == "lease")
			}
		}
		// The search on everything agrees too, drawn or not.
		f, _ := report.Finding("lease")
		for _, ops := range [][]porcupine.Operation{v.leaseOps(), v.leaseOpsDrawn()} {
			if porcupine.CheckOperations(lockModel, ops) != (f.Verdict == holds) {
				t.Fatalf("history %d: the search does not say that lease is %s\n%s", n, f.Verdict, show(h))
			}
		}
		f, _ = report.Finding("mutex")
		if porcupine.CheckOperations(lockModel, v.mutexOps()) != (f.Verdict == holds) {
			t.Fatalf("history %d: the search does not say that mutex is %s\n%s", n, f.Verdict, show(h))
		}
		// And the definition: two beliefs of different owners that overlap.
		pairs := 0
		believers := v.believers()
		for i, a := range believers {
			for _, b := range believers[:i] {
				af, at := v.belief(a)
				bf, bt := v.belief(b)
				if a.owner != b.owner && max(af, bf) < min(at, bt) {
					pairs++
				}
			}
		}
		figure(t, report, "mutex", "overlaps", float64(pairs))
		if t.Failed() {
			t.Fatalf("history %d\n%s", n, show(h))
		}
	}
	lopsided(t, seen["mutex"])
	lopsided(t, seen["lease"])
}

// minimalHolds: without any one of its holds the cut is legal, by brute force.
func minimalHolds(t *testing.T, f Finding, lease bool) {
	t.Helper()
	if bruteLock(t, f.Cut, lease, livesOf(f.Cut)) {
		t.Fatalf("the cut of %s is legal, by brute force\n%s", f.Name, show(f.Cut))
	}
	ids := map[int64]bool{}
	for _, e := range f.Cut.Events {
		if e.Op == history.Acquire {
			ids[e.Hold] = true
		}
	}
	for id := range ids {
		less := &history.History{Header: f.Cut.Header}
		for _, e := range f.Cut.Events {
			if e.Hold != id {
				less.Events = append(less.Events, e)
			}
		}
		if !bruteLock(t, less, lease, livesOf(f.Cut)) {
			t.Fatalf("the cut of %s is illegal without hold %d too\n%s", f.Name, id, show(f.Cut))
		}
	}
}

func lopsided(t *testing.T, seen map[results.Verdict]int) {
	t.Helper()
	all := 0
	for _, n := range seen {
		all += n
	}
	t.Logf("%d histories: %v", all, seen)
	if seen[holds] < all/10 || seen[bad] < all/10 {
		t.Errorf("the histories were lopsided: %v", seen)
	}
}

// histories is how many random histories to try: under the race detector, which makes
// everything some ten times slower, a twentieth.
func histories(t *testing.T) int {
	if raceEnabled {
		return *randomHistories / 20
	}
	return *randomHistories
}

// bruteResource decides resource by trying everything, for each key.
func bruteResource(t *testing.T, h *history.History) bool {
	t.Helper()
	all, err := h.Operations()
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[string][]brute{}
	a := h.Header.Amount
	for i := range all {
		o := &all[i]
		b := brute{from: o.Invoke, to: o.Return, optional: o.Outcome == history.Info}
		matches := func(state int64) bool { return !o.Known || state == o.Value }
		switch {
		case o.Op == history.Read && o.Outcome == history.OK:
			b.apply = func(s any) (any, bool) { return s, matches(s.(int64)) }
		case o.Op == history.Read:
			continue
		case o.Outcome == history.Fail && o.Code == history.SoldOut:
			b.apply = func(s any) (any, bool) { return s, matches(s.(int64)) && s.(int64) < a }
		case o.Outcome == history.Fail:
			continue
		default:
			b.apply = func(s any) (any, bool) { return s.(int64) - a, matches(s.(int64)) && s.(int64) >= a }
		}
		byKey[o.Key] = append(byKey[o.Key], b)
	}
	for _, ops := range byKey {
		if !legal(ops, h.Header.Initial) {
			return false
		}
	}
	return true
}

// randomStock makes a small history of a resource: of a right one, into which at
// random a mistake or two is put.
func randomStock(r *rand.Rand) *history.History {
	header := stockHeader
	header.Clients = 4
	op := history.Buy
	header.Initial = 1 + r.Int64N(7)
	if r.IntN(2) == 0 {
		op = history.Withdraw
		header.Workload, header.Amount = "wallet", 1+r.Int64N(3)
		header.Initial *= header.Amount
		header.Initial += r.Int64N(header.Amount)
	}
	blind := r.IntN(6) == 0
	mistakes := r.IntN(3)
	left := header.Initial
	var parts [][]history.Event
	parts = make([][]history.Event, header.Clients)
	generation := make([]int, header.Clients)
	free := make([]int64, header.Clients)
	now := int64(0)
	n := 3 + r.IntN(10)
	for i := range n {
		c := r.IntN(header.Clients)
		now = max(now, free[c]) + r.Int64N(3)
		e := history.Event{Time: max(free[c], now-r.Int64N(6)), Process: header.Process(c, history.ClientRole, generation[c]), Type: history.Invoke, Op: op, Key: "s"}
		done := e
		done.Time = now + r.Int64N(6)
		done.Value, done.Known, done.Type = left, true, history.OK
		k := r.IntN(10)
		switch {
		case k < 2:
			e.Op, done.Op = history.Read, history.Read
		case k < 4:
			done.Type = history.Info
			done.Known = r.IntN(3) == 0
			if left >= header.Amount {
				left -= header.Amount * r.Int64N(2)
			}
		case left < header.Amount:
			done.Type, done.Error = history.Fail, history.SoldOut
			done.Known = r.IntN(4) > 0
		case k == 4:
			done.Type, done.Error = history.Fail, history.Stale
		default:
			left -= header.Amount
			done.Known = !blind || r.IntN(3) > 0
		}
		if mistakes > 0 && r.IntN(n) <= 2*i/n+1 {
			mistakes--
			switch r.IntN(4) {
			case 0:
				done.Value += header.Amount
			case 1:
				done.Value -= header.Amount
			case 2:
				left -= header.Amount
			default:
				done.Value++
			}
		}
		if !done.Known {
			done.Value = 0
		}
		parts[c] = append(parts[c], e)
		free[c] = done.Time
		if done.Type == history.Info {
			generation[c]++
			if r.IntN(2) == 0 {
				continue
			}
		}
		parts[c] = append(parts[c], done)
	}
	return history.Merge(header, parts...)
}

func TestRandomStocks(t *testing.T) {
	seen := map[results.Verdict]int{}
	for n := range histories(t) {
		r := rand.New(rand.NewPCG(uint64(n), 12))
		h := randomStock(r)
		want := bruteResource(t, h)
		report := check(t, h)
		f, _ := report.Finding("resource")
		seen[f.Verdict]++
		if f.Verdict != map[bool]results.Verdict{true: holds, false: bad}[want] {
			t.Fatalf("history %d: resource is %s (%s), by brute force legal is %v\n%s", n, f.Verdict, f.Reason, want, show(h))
		}
		v, err := newView(h)
		if err != nil {
			t.Fatal(err)
		}
		if porcupine.CheckOperations(resourceModel(h.Header.Initial), v.resourceOps()) != want {
			t.Fatalf("history %d: the search does not say that legal is %v\n%s", n, want, show(h))
		}
		if f.Cut != nil {
			if bruteResource(t, f.Cut) {
				t.Fatalf("history %d: the cut is legal, by brute force\n%s\ncut:\n%s", n, show(h), show(f.Cut))
			}
			minimalLooks(t, *f)
		}
	}
	lopsided(t, seen)
}

// minimalLooks: a look that can be dropped from a cut was to be dropped.
func minimalLooks(t *testing.T, f Finding) {
	t.Helper()
	v, err := newView(f.Cut)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(v.ledgers(), (*ledger).blind) {
		return // cut by prefix only
	}
	ops := v.ops
	if first, second, ok := v.ledgers()[0].clash(); ok && len(ops) == 2 {
		// A clashing pair is illegal from whatever value; one of them alone is legal
		// from the value that it saw.
		for initial := range int64(30) {
			from := &history.History{Header: f.Cut.Header, Events: f.Cut.Events}
			from.Header.Initial = initial
			if bruteResource(t, from) {
				t.Fatalf("the pair %v, %v is legal from %d\n%s", first, second, initial, show(f.Cut))
			}
		}
		return
	}
	for i := range ops {
		if ops[i].Op != history.Read && ops[i].Outcome != history.Fail {
			continue
		}
		less := &history.History{Header: f.Cut.Header}
		for k, e := range f.Cut.Events {
			if k != ops[i].First && k != ops[i].Last {
				less.Events = append(less.Events, e)
			}
		}
		if !bruteResource(t, less) {
			t.Fatalf("the cut is illegal without the look of event %d too\n%s", ops[i].First, show(f.Cut))
		}
	}
}
