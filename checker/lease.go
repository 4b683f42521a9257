package checker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"lockstress/history"
	"lockstress/results"
)

// lease judges whether the lock is a correct lease: granted only when free, or when
// the time of the last holder could be up.
func (j *judge) lease() Finding {
	if !j.h.Header.Locks {
		return finding(results.NotApplicable, nil, "this control takes no lock")
	}
	found := sweepKeys(j.grants(), j.leased)
	return j.exclusion(found, (*view).leaseOps, (*view).leaseOpsDrawn, j.leasedOut, j.leased,
		"client %d was granted hold %d at %s, before the lease of client %d in hold %d, granted at %s, could have ended; such grants: %d")
}

// segment is a part of a lease: from an acquire, or from an extension.
type segment struct {
	op  *history.Operation
	end int64 // the earliest moment it can end by itself; [history.Never] if it cannot
}

// segments of a granted lease, in order of invocation. Extensions that failed did
// nothing. Those whose outcome is unknown are left out: they may never have
// happened, and one that did could only forbid more.
func (v *view) segments(d *hold) []segment {
	all := []segment{{op: d.acquire}}
	for _, x := range d.extends {
		if x.Outcome == history.OK && x.Return >= d.acquire.Invoke {
			all = append(all, segment{op: x})
		}
	}
	slices.SortStableFunc(all[1:], func(a, b segment) int { return cmp.Compare(a.op.Invoke, b.op.Invoke) })
	for i := range all {
		s := &all[i]
		switch {
		case !v.h.Header.Expires:
			s.end = history.Never
		case s.op.Deadline != 0:
			// What the lock itself promised. It counts from the attempt that
			// succeeded, while the operation begins with the first one; and it
			// may be less than the TTL (Redlock's validity).
			s.end = s.op.Deadline - v.h.Header.Margin
		default:
			s.end = s.op.Invoke + v.h.Header.TTL - v.h.Header.Margin
		}
	}
	return all
}

// leased is the time for which a granted lease certainly stood: from the latest
// moment it can have begun, the acquire's return, to the earliest it can have ended.
// That is when its last segment can expire, or from when on its holder was giving it
// up, or the lock said that it had; but an extension answered ok shows that it had
// not ended before. from ≥ to for a grant answered so late that its time could be up.
func (v *view) leased(d *hold) (from, to int64) {
	all := v.segments(d)
	last := all[len(all)-1]
	from = d.acquire.Return
	to = max(last.op.Invoke, min(last.end, d.released(), d.lost))
	for _, s := range all {
		from = min(from, s.op.Return)
	}
	// Beyond the history there is nobody to be kept out.
	return from, min(to, v.end+1)
}

// leaseOpsDrawn translates leases to operations of the lock model. The end of a lease
// is an operation of its own: a release may take effect at any time from its
// invocation on, whatever its answer; a segment may expire at any time from its
// earliest end on.
//
// There is deliberately no latest end. It would matter only for an extension that
// answers ok after it, and then only if nobody else was granted the lock in between
// – which harms no one. Nor would it be sound: a server's clock that was set back, or
// a promoted replica, keeps a key for longer than its TTL.
//
// The word that the lease is lost counts as a release: some locks remove what is
// left of their keys when they have found out.
func (v *view) leaseOpsDrawn() []porcupine.Operation { return v.translateLeases(true) }

// leaseOps is the same with one end per hold, the one that can come first. The others
// add nothing: what ends a lease at some time, the first could have ended then; and
// while an extension is still to come that answers ok, nothing may end it. Without
// them the search need not pass over them at every step.
func (v *view) leaseOps() []porcupine.Operation { return v.translateLeases(false) }

func (v *view) translateLeases(drawn bool) []porcupine.Operation {
	var ops []porcupine.Operation
	last := map[string]int64{}
	for _, d := range v.grants() {
		last[d.key] = v.end + 1
		at := func(call, ret int64, in lockInput) {
			in.key, in.owner, in.hold = d.key, d.owner, d.id
			ops = append(ops, porcupine.Operation{ClientId: d.acquire.Process, Call: call, Return: ret, Input: in})
		}
		ops = append(ops, v.grantOp(d))
		var ends []func()
		first, soonest := -1, int64(history.Never)
		end := func(call int64, in lockInput) {
			if call < soonest {
				first, soonest = len(ends), call
			}
			ends = append(ends, func() { at(call, history.Never, in) })
		}
		segments := v.segments(d)
		for i, s := range segments {
			if i > 0 {
				at(s.op.Invoke, s.op.Return, lockInput{step: extend, segment: i, text: v.describe(s.op)})
			}
			if s.end != history.Never && (drawn || i == len(segments)-1) {
				end(s.end, lockInput{step: expire, segment: i, text: fmt.Sprintf("lease of hold %d may end", d.id)})
			}
		}
		for _, r := range d.releases {
			end(r.Invoke, lockInput{step: free, text: v.describe(r)})
		}
		if d.lost != history.Never {
			end(d.lost, lockInput{step: free, text: fmt.Sprintf("client %d: told that hold %d is lost", d.client, d.id)})
		}
		for i, add := range ends {
			if drawn || i == first {
				add()
			}
		}
	}
	for key, t := range last {
		ops = append(ops, porcupine.Operation{
			ClientId: history.Nemesis, Call: t, Return: t, Input: lockInput{step: over, key: key, text: "the end"},
		})
	}
	return ops
}
