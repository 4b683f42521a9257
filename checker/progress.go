package checker

import (
	"slices"

	"lockstress/history"
	"lockstress/results"
)

// progress measures how long clients wait for the lock. Slow is not wrong, so it is
// violated only in two cases that leave no excuse:
//
//   - a lock that everybody had done with for longer than a TTL – its holders were
//     killed, or had released it – was still answered "busy";
//   - a client was kept out by its own hold: answered "busy", or granted only once its
//     own lease was over.
//
// It holds if the lock was granted again after the last fault was injected.
func (j *judge) progress() Finding {
	if !j.h.Header.Locks {
		return finding(results.NotApplicable, nil, "this control takes no lock")
	}
	var waits []int64
	figures := map[string]float64{"busy": 0}
	lastGrant := int64(-1)
	for _, d := range j.holds {
		switch {
		case d.granted():
			waits = append(waits, d.acquire.Return-d.acquire.Invoke)
			lastGrant = max(lastGrant, d.acquire.Invoke)
		case d.acquire.Outcome == history.Fail && d.acquire.Code == history.Busy:
			figures["busy"]++
		}
	}
	if len(waits) > 0 {
		slices.Sort(waits)
		rank := func(q float64) float64 { return float64(waits[min(int(q*float64(len(waits))), len(waits)-1)]) }
		figures["wait_p50_ns"], figures["wait_p99_ns"], figures["wait_max_ns"] = rank(0.5), rank(0.99), rank(1)
	}
	if index, ok := j.fairness(); ok {
		figures["fairness_index"] = index
	}
	lastFault := int64(-1)
	for _, e := range j.notes {
		if e.Op == history.Fault || e.Op == history.Dead {
			lastFault = max(lastFault, e.Time)
		}
	}
	if recovery, ok := j.recovery(); ok {
		figures["recovery_ns"] = float64(recovery)
	}

	if d, others := j.refused(); d != nil {
		f := finding(results.Violated, figures, "client %d was answered busy at %s, though everybody had done with the lock for longer than its TTL",
			d.client, ms(d.acquire.Return))
		f.Cut = j.cutWaiting(d, others)
		return f
	}
	if d, own := j.selfBlocked(); d != nil {
		f := finding(results.Violated, figures, "client %d was kept out of the lock by its own hold %d", d.client, own.id)
		f.Cut = j.cutWaiting(d, []*hold{own})
		return f
	}
	switch {
	case len(waits) == 0:
		return finding(results.NotApplicable, figures, "the lock was never granted")
	case lastGrant < lastFault:
		return finding(results.NotApplicable, figures, "nobody was granted the lock after the last fault")
	}
	return finding(results.Holds, figures, "")
}

// fairness is Jain's index over the grants of each client that asked: 1 if all got as
// many, 1/n if one of n got all (Jain, Chiu and Hawe, "A quantitative measure of
// fairness", 1984). Of fewer than two grants a client it says nothing.
func (v *view) fairness() (index float64, ok bool) {
	grants := map[int]float64{}
	var total, squares float64
	for _, d := range v.holds {
		if d.granted() {
			grants[d.client]++
			total++
		} else {
			grants[d.client] += 0 // it asked
		}
	}
	for _, n := range grants {
		squares += n * n
	}
	n := float64(len(grants))
	if n < 2 || total < 2*n {
		return 0, false
	}
	return total * total / (n * squares), true
}

// recovery is the longest time from a fault's beginning to the return of the first
// acquire invoked after it that was granted.
func (v *view) recovery() (longest int64, ok bool) {
	grants := v.grants()
	// soonest[i]: the earliest answer among grants[i:], which are in order of invocation.
	soonest := make([]int64, len(grants))
	for i := len(grants) - 1; i >= 0; i-- {
		soonest[i] = grants[i].acquire.Return
		if i+1 < len(grants) {
			soonest[i] = min(soonest[i], soonest[i+1])
		}
	}
	for _, e := range v.notes {
		if e.Op != history.Fault {
			continue
		}
		i, _ := slices.BinarySearchFunc(grants, e.Time, func(d *hold, t int64) int {
			if d.acquire.Invoke < t {
				return -1
			}
			return 1
		})
		if i < len(grants) {
			longest, ok = max(longest, soonest[i]-e.Time), true
		}
	}
	return longest, ok
}

// lastTouch is the last moment at which somebody alive had to do with d;
// [history.Never] if somebody may have still.
func (v *view) lastTouch(d *hold) int64 {
	if d.acquire.Outcome == history.Fail {
		return d.acquire.Return
	}
	touch := v.when(d.acquire)
	if touch == history.Never { // it died over it, or waits still
		return d.dead
	}
	if d.granted() {
		switch {
		case len(d.releases) > 0:
			touch = v.when(d.releases[0])
		default:
			touch = history.Never
		}
		touch = min(touch, d.dead) // being told of a loss removes nothing
	}
	for _, op := range slices.Concat(d.extends, d.releases) {
		if at := v.when(op); at != history.Never {
			touch = max(touch, at)
		} else if d.dead == history.Never {
			return history.Never
		}
	}
	return touch
}

// refused finds a busy answer that nobody can have been the reason of, and the hold
// that was touched last before.
func (v *view) refused() (d *hold, others []*hold) {
	settle := v.h.Header.TTL + v.h.Header.Margin + expiryLag
	byKey := map[string][]*hold{}
	for _, d := range v.holds {
		byKey[d.key] = append(byKey[d.key], d)
	}
	for _, ds := range byKey {
		var latest *hold
		touched := int64(-1 << 62) // the last touch by any acquire before
		for _, d := range ds {
			if d.acquire.Outcome == history.Fail && d.acquire.Code == history.Busy && latest != nil && touched != history.Never &&
				touched+settle < d.acquire.Invoke && !v.accompanied(ds, d) {
				return d, []*hold{latest}
			}
			// A failed acquire holds nothing once it is answered; a refused one may
			// have held a part of the lock until then, so both count until then.
			if t := v.lastTouch(d); t > touched {
				touched, latest = t, d
			}
		}
	}
	return nil, nil
}

// accompanied: another acquire was under way during that of d. ds is in order of
// invocation; those before d have been seen to.
func (v *view) accompanied(ds []*hold, d *hold) bool {
	for _, o := range ds {
		if o != d && o.acquire.Invoke >= d.acquire.Invoke && o.acquire.Invoke <= d.acquire.Return {
			return true
		}
	}
	return false
}

// selfBlocked finds an acquire that its own client's hold was in the way of.
func (v *view) selfBlocked() (d, own *hold) {
	last := map[string]map[int]*hold{} // key → owner → its last hold
	for _, d := range v.holds {
		if last[d.key] == nil {
			last[d.key] = map[int]*hold{}
		}
		own := last[d.key][d.owner]
		// A client that goes on under a new number has met an unknown outcome, and may
		// not know how to give back the hold of before.
		if own != nil && d.acquire.Outcome != history.Info && own.acquire.Process == d.acquire.Process {
			from, to := v.belief(own)
			_, lease := v.leased(own)
			covered := from <= d.acquire.Invoke && d.acquire.Return <= to
			busy := d.acquire.Outcome == history.Fail && d.acquire.Code == history.Busy
			late := d.granted() && v.h.Header.Expires && lease > d.acquire.Invoke && d.acquire.Return >= lease
			if covered && (busy || late) && !v.othersHad(d) {
				return d, own
			}
		}
		if d.granted() {
			last[d.key][d.owner] = d
		}
	}
	return nil, nil
}

// othersHad: somebody else than the client of d may have had the lock meanwhile.
func (v *view) othersHad(d *hold) bool {
	settle := v.h.Header.TTL + v.h.Header.Margin + expiryLag
	return slices.ContainsFunc(v.holds, func(o *hold) bool {
		if o.key != d.key || o.owner == d.owner || o.acquire.Outcome == history.Fail || o.acquire.Invoke > d.acquire.Return {
			return false
		}
		touch := v.lastTouch(o)
		return touch == history.Never || touch+settle >= d.acquire.Invoke
	})
}

func (v *view) cutWaiting(d *hold, others []*hold) *history.History {
	holds := append([]*hold{d}, others...)
	var ops []*history.Operation
	for _, h := range holds {
		ops = append(ops, h.acquire)
		ops = append(ops, h.releases...)
		ops = append(ops, h.extends...)
	}
	return v.cut(ops, holds, true)
}
