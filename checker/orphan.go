package checker

import (
	"cmp"
	"slices"

	"lockstress/history"
	"lockstress/results"
)

// expiryLag is how much later than its time a server may delete a key on its own: a
// Redis looks for expired keys some ten times a second, if nobody touches them.
const expiryLag = int64(200e6)

// abandoned is when the last client that could believe in d was gone: it died, was
// told of the loss, or gave up, and is not sure to have removed the key.
func (v *view) abandoned(d *hold) int64 {
	if d.granted() {
		at := min(d.dead, d.lost)
		if len(d.releases) > 0 && d.releases[0].Invoke < at {
			r := d.releases[0]
			switch {
			case r.Outcome == history.OK:
				return history.Never
			case r.Last < 0:
				return d.dead // still at it, or died over it
			default:
				at = v.when(r)
			}
		}
		return at
	}
	return min(v.when(d.acquire), d.dead)
}

// orphan measures for how long a lock stays taken with nobody alive behind it. That
// is fine for as long as a TTL, and no longer.
func (j *judge) orphan() Finding {
	if !j.h.Header.Locks {
		return finding(results.NotApplicable, nil, "this control takes no lock")
	}
	if !j.h.Header.Witnessed {
		return finding(results.NotApplicable, nil, "no witness watched the servers")
	}
	w := j.witness()
	if w.nodes == 0 {
		return finding(results.Unknown, nil, "the witness wrote nothing down")
	}
	limit := j.h.Header.TTL + j.h.Header.Margin
	var longest int64
	orphans, endless, doubted := 0, 0, 0
	var worst *hold
	var worstTime int64
	for _, d := range j.holds {
		start := j.abandoned(d)
		if start >= j.end {
			continue
		}
		type stay struct {
			until             int64
			forever, doubtful bool
			persistent        bool // the key has no TTL
		}
		var stays []stay
		for _, log := range w.logs[d.key] {
			s := stay{until: start, doubtful: log.doubtful}
			there := false
			for _, x := range log.notes {
				switch {
				case x.hold == d.id && (x.Effect == history.Set || x.Effect == history.Extended):
					there, s.persistent = true, x.TTL == 0
				case x.hold == d.id && x.Effect != history.Denied,
					there && x.Effect == history.Set && x.hold != 0 && !j.sameOwner(x.hold, d):
					there = false
					s.until = max(start, x.Time)
				}
			}
			if there {
				s.until, s.forever = j.end, true
			}
			stays = append(stays, s)
		}
		if w.nodes > j.servers() && len(stays) > 1 {
			// A failover: the key is gone as soon as it is gone anywhere, and if it
			// never is, the old server may be the one that has it still.
			s := slices.MinFunc(stays, func(a, b stay) int { return cmp.Compare(a.until, b.until) })
			s.doubtful = true
			stays = []stay{s}
		}
		slices.SortFunc(stays, func(a, b stay) int { return cmp.Compare(b.until, a.until) })
		// On fewer servers it blocks nobody.
		need := j.blocking()
		if len(stays) < need {
			continue
		}
		s := stays[need-1]
		took := s.until - start
		if took <= stampLag/5 {
			continue // the note of a removal that was in time
		}
		orphans++
		longest = max(longest, took)
		if s.forever {
			endless++
		}
		bound := limit + expiryLag
		if s.forever && s.persistent {
			bound = limit // no expiry to wait for
		}
		switch {
		case took <= bound:
		case s.doubtful || slices.ContainsFunc(stays[:need-1], func(s stay) bool { return s.doubtful }):
			doubted++
		case took > worstTime:
			worst, worstTime = d, took
		}
	}
	if orphans == 0 {
		return finding(results.NotApplicable, map[string]float64{"orphan_ns": 0}, "no lock was left behind")
	}
	figures := map[string]float64{"orphan_ns": float64(longest), "orphans": float64(orphans), "endless": float64(endless)}
	if worst == nil {
		if doubted > 0 {
			return finding(results.Unknown, figures, "a lock was left behind for %s, but the server concerned had a fault of its own", ms(longest))
		}
		return finding(results.Holds, figures, "")
	}
	f := finding(results.Violated, figures, "hold %d of client %d was left behind and blocked the lock for %s at least; its TTL is %s",
		worst.id, worst.client, ms(worstTime), ms(j.h.Header.TTL))
	f.Cut = j.cutOrphan(worst)
	return f
}

// cutOrphan keeps the hold, the witness's notes on it, and where the history ends.
func (v *view) cutOrphan(d *hold) *history.History {
	ops := append([]*history.Operation{d.acquire}, d.releases...)
	cut := v.cut(ops, []*hold{d}, true)
	if n := len(cut.Events); cut.Events[n-1].Time < v.end {
		cut.Events = append(cut.Events, endMark(v.end))
	}
	return cut
}
