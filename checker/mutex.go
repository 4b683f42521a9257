package checker

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"lockstress/checker/monitor"
	"lockstress/results"
)

// mutex judges whether the lock is what its users believe it to be: never two
// holders at once.
func (j *judge) mutex() Finding {
	if !j.h.Header.Locks {
		return finding(results.NotApplicable, nil, "this control takes no lock")
	}
	found := sweepKeys(j.believers(), j.belief)
	return j.exclusion(found, (*view).mutexOps, (*view).mutexOps, j.believed, j.belief,
		"client %d was granted hold %d at %s while client %d still believed in its hold %d, granted at %s; overlaps: %d")
}

// believers are the holds with a belief of any length. A client that was told of the
// loss, or died, before the grant's answer arrived never believed.
func (v *view) believers() []*hold {
	var all []*hold
	for _, d := range v.grants() {
		if from, to := v.belief(d); from < to {
			all = append(all, d)
		}
	}
	return all
}

// mutexOps translates beliefs to operations of the lock model: a grant somewhere in
// the acquire's interval, and a release that may take effect from its invocation on,
// whatever its answer. An acquire whose outcome is unknown is left out: its client
// believes nothing, and a grant that may never have been can only forbid things.
func (v *view) mutexOps() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, d := range v.believers() {
		ops = append(ops, v.grantOp(d))
		_, to := v.belief(d)
		until, text := to, ""
		switch {
		case to == d.released():
			for _, r := range d.releases {
				if r.Invoke == to {
					until, text = r.Return, v.describe(r)
				}
			}
		case to == d.lost:
			text = fmt.Sprintf("client %d: told that hold %d is lost", d.client, d.id)
		case to == d.dead:
			text = fmt.Sprintf("client %d: killed in hold %d", d.client, d.id)
		default:
			continue // it believes to the end
		}
		ops = append(ops, porcupine.Operation{
			ClientId: d.acquire.Process, Call: to, Return: until,
			Input: lockInput{step: free, key: d.key, owner: d.owner, hold: d.id, text: text},
		})
	}
	return ops
}

func (v *view) grantOp(d *hold) porcupine.Operation {
	return porcupine.Operation{
		ClientId: d.acquire.Process, Call: d.acquire.Invoke, Return: d.acquire.Return,
		Input: lockInput{step: grant, key: d.key, owner: d.owner, hold: d.id, text: v.describe(d.acquire)},
	}
}

// exclusion is what mutex and lease have in common: it turns what the sweep found
// into a verdict that Porcupine has confirmed – for a violation on the cut, which is
// enough because dropping whole holds never makes a history illegal, see [shrink].
func (j *judge) exclusion(found overlaps, translate, drawn func(*view) []porcupine.Operation, long func() monitor.Verdict, of func(*hold) (int64, int64), reason string) Finding {
	figures := map[string]float64{"overlaps": float64(found.pairs), "overlap_ns": float64(found.ns)}
	if found.first == nil {
		switch result, why := j.secondLock(translate, long, of); result {
		case porcupine.Ok:
			return finding(results.Holds, figures, "")
		case porcupine.Illegal:
			return finding(results.Unknown, figures, disagreement, "the second judge refutes what the sweep passed")
		default:
			return finding(results.Unknown, figures, why)
		}
	}
	cut, why := j.cutHolds(found.first, translate)
	if cut == nil {
		return finding(results.Unknown, figures, why)
	}
	a, b := earlier(found.first)
	afrom, _ := of(a)
	f := finding(results.Violated, figures, reason,
		b.client, b.id, ms(b.acquire.Return), a.client, a.id, ms(afrom), found.pairs)
	f.Cut = cut
	f.Picture = picture(cut, lockModel, drawn)
	return f
}

// earlier puts a pair in the order of their grants' answers.
func earlier(pair []span) (a, b *hold) {
	a, b = pair[0].holds[0], pair[1].holds[0]
	if b.acquire.Return < a.acquire.Return {
		return b, a
	}
	return a, b
}
