package checker

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"

	"lockstress/checker/monitor"
	"lockstress/history"
)

// searchable is how many operations on one key are put to Porcupine unless
// [Options.Searchable] says otherwise. It could search
// longer histories of known outcomes, but needs n²/8 bytes for them, and may never end
// where a few outcomes are unknown. The monitors judge those instead: they are exact,
// take near-linear time, and agree with Porcupine wherever both have an answer (see
// docs/checking.md).
const searchable = 4000

// second is the judgement of a ledger that the sweep's is held against: Porcupine's,
// or if it is too long for that a monitor's.
func (j *judge) second(m porcupine.Model, v *view, l *ledger) (porcupine.CheckResult, string) {
	if len(l.entries) <= j.o.Searchable {
		return j.search(m, v.ledgerOps(l))
	}
	return asked(l.counted())
}

// secondLock is [judge.second] for a lock. The monitors know no re-entry, so where a
// client was granted what it had already it is Porcupine's to judge, however long. A
// history is not translated for Porcupine, which takes memory, if it is not asked.
func (j *judge) secondLock(translate func(*view) []porcupine.Operation, long func() monitor.Verdict, of func(*hold) (from, to int64)) (porcupine.CheckResult, string) {
	if j.steps() <= j.o.Searchable || j.reenters(of) {
		return j.search(lockModel, translate(j.view))
	}
	return asked(long())
}

// asked is a monitor's verdict in Porcupine's words.
func asked(v monitor.Verdict) (porcupine.CheckResult, string) {
	switch v.Result {
	case monitor.Legal:
		return porcupine.Ok, ""
	case monitor.Illegal:
		return porcupine.Illegal, v.Reason
	}
	return porcupine.Unknown, v.Reason
}

// steps is the number of grants, extensions and releases on the key that has most.
func (v *view) steps() int {
	most := 0
	byKey := map[string]int{}
	for _, d := range v.holds {
		if d.granted() {
			byKey[d.key] += 1 + len(d.extends) + len(d.releases)
			most = max(most, byKey[d.key])
		}
	}
	return most
}

// reenters says whether any owner had a lock twice at a time.
func (v *view) reenters(of func(*hold) (from, to int64)) bool {
	type having struct {
		key   string
		owner int
	}
	had := map[having][]span{}
	for _, d := range v.grants() {
		from, to := of(d)
		h := having{d.key, d.owner}
		had[h] = append(had[h], span{from: min(from, to), to: max(from, to)})
	}
	for _, spans := range had {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for i := 1; i < len(spans); i++ {
			if spans[i].from < spans[i-1].to {
				return true
			}
		}
	}
	return false
}

// believed puts beliefs to the monitor of mutual exclusion: a grant, and a release
// that is invoked when the belief ends.
func (v *view) believed() monitor.Verdict {
	keys := numbers{}
	var ops []monitor.LockOp
	for _, d := range v.believers() {
		_, to := v.belief(d)
		ops = append(ops, v.monitoredGrant(d, keys), monitor.LockOp{
			Invoke: to, Return: monitor.Never, Hold: d.id, Key: keys.of(d.key), Kind: monitor.Release, Outcome: monitor.Info,
		})
	}
	return monitor.Mutex(ops, nil)
}

// leasedOut puts leases to the monitor of leases. Releases, and the word that a lease
// is lost, may take effect from then on, or may not: see [view.leaseOpsDrawn].
func (v *view) leasedOut() monitor.Verdict {
	keys := numbers{}
	var ops []monitor.LockOp
	for _, d := range v.grants() {
		ops = append(ops, v.monitoredGrant(d, keys))
		add := func(invoke, ret int64, kind monitor.Kind, outcome monitor.Outcome, deadline int64) {
			ops = append(ops, monitor.LockOp{
				Invoke: invoke, Return: ret, Hold: d.id, Deadline: deadline, Key: keys.of(d.key), Kind: kind, Outcome: outcome,
			})
		}
		for _, s := range v.segments(d)[1:] {
			add(s.op.Invoke, s.op.Return, monitor.Extend, monitor.OK, s.op.Deadline)
		}
		for _, r := range d.releases {
			add(r.Invoke, monitor.Never, monitor.Release, monitor.Info, 0)
		}
		if d.lost != history.Never {
			add(d.lost, monitor.Never, monitor.Release, monitor.Info, 0)
		}
	}
	if rules, ok := monitor.Expiry(&v.h.Header); ok {
		return monitor.Lease(ops, rules)
	}
	return monitor.Lock(ops, monitor.LockRules{})
}

func (v *view) monitoredGrant(d *hold, keys numbers) monitor.LockOp {
	return monitor.LockOp{
		Invoke: d.acquire.Invoke, Return: d.acquire.Return, Hold: d.id, Deadline: d.acquire.Deadline,
		Key: keys.of(d.key), Kind: monitor.Acquire, Outcome: monitor.OK,
	}
}

// counted puts the entries of a ledger to the monitor of counters, which does not look
// at what a sale of unknown outcome saw before: it may pass what that rules out. The
// sweep looks, unless the ledger is blind.
func (l *ledger) counted() monitor.Verdict {
	ops, lenient := make([]monitor.StockOp, 0, len(l.entries)), false
	for i := range l.entries {
		e := &l.entries[i]
		op := monitor.StockOp{
			Invoke: e.call, Return: e.ret, Value: e.value, Known: e.known, Kind: monitor.Buy, Outcome: monitor.OK,
		}
		switch e.kind {
		case maybe:
			lenient = lenient || e.known
			op.Outcome, op.Known = monitor.Info, false
		case empty:
			op.Outcome = monitor.Fail
		case look:
			op.Kind = monitor.Read
		}
		ops = append(ops, op)
	}
	v := monitor.Wallet(ops, l.initial, l.amount)
	if v.Result == monitor.Legal && lenient && l.blind() {
		return monitor.Verdict{Result: monitor.Unknown, Reason: "too long for a search, and the monitor does not use what sales of unknown outcome saw"}
	}
	return v
}

// numbers gives names numbers, from 0 in the order of asking.
type numbers map[string]int32

func (n numbers) of(name string) int32 {
	i, ok := n[name]
	if !ok {
		i = int32(len(n))
		n[name] = i
	}
	return i
}
