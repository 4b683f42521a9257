package checker

import (
	"cmp"
	"slices"

	"lockstress/history"
	"lockstress/results"
)

// notice measures for how long a holder went on believing after its lease was over:
// after its own deadline, or after somebody else had been granted the lock.
//
// Most locks never find out, so the gap alone is no verdict. The property holds if
// every such holder was told of the loss before anybody else was granted the lock.
// It is violated only for a lock that says that it notices (Header.Notices): one of
// its holders still believed when somebody else was granted the lock.
func (j *judge) notice() Finding {
	if !j.h.Header.Locks {
		return finding(results.NotApplicable, nil, "this control takes no lock")
	}
	byKey := map[string][]*hold{} // in order of the grant's answer
	for _, d := range j.grants() {
		byKey[d.key] = append(byKey[d.key], d)
	}
	for _, ds := range byKey {
		slices.SortStableFunc(ds, func(a, b *hold) int { return cmp.Compare(a.acquire.Return, b.acquire.Return) })
	}
	var longest, total int64
	outlived, told := 0, 0
	var late [2]*hold
	for _, d := range j.believers() {
		from, to := j.belief(d)
		// The first grant to somebody else that was answered after that of d.
		ds := byKey[d.key]
		i, _ := slices.BinarySearchFunc(ds, from, func(o *hold, t int64) int {
			if o.acquire.Return <= t {
				return -1
			}
			return 1
		})
		for i < len(ds) && ds[i].owner == d.owner {
			i++
		}
		over, next := int64(history.Never), int64(history.Never)
		if i < len(ds) {
			next = ds[i].acquire.Return
			over = next
		}
		if deadline := j.deadline(d); deadline != 0 {
			over = min(over, deadline)
		}
		if to <= over {
			continue
		}
		outlived++
		longest, total = max(longest, to-over), total+to-over
		if to == d.lost && to <= next {
			told++
		}
		if to > next && late[0] == nil {
			late = [2]*hold{d, ds[i]}
		}
	}
	if outlived == 0 {
		return finding(results.NotApplicable, map[string]float64{"belief_gap_ns": 0}, "no holder believed for longer than its lease")
	}
	figures := map[string]float64{
		"belief_gap_ns": float64(longest), "belief_gap_mean_ns": float64(total) / float64(outlived),
		"outlived": float64(outlived), "told": float64(told),
	}
	switch {
	case told == outlived:
		return finding(results.Holds, figures, "")
	case !j.h.Header.Notices:
		return finding(results.NotApplicable, figures, "the lock does not claim to notice a loss")
	case late[0] == nil:
		return finding(results.Holds, figures, "")
	}
	a, b := late[0], late[1]
	f := finding(results.Violated, figures, "client %d was not told that hold %d was lost before client %d was granted hold %d, at %s",
		a.client, a.id, b.client, b.id, ms(b.acquire.Return))
	pieces := []piece{{hold: a}, {hold: b}}
	for _, x := range a.extends {
		pieces = append(pieces, piece{a, x})
	}
	f.Cut = j.cutPieces(pieces, true)
	return f
}
