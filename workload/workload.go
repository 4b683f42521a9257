// Package workload is what a client does while it holds the lock, and the guard by
// which the resource defends itself.
package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockstress/history"
)

// Workload says what one critical section does to the resource, a counter.
type Workload struct {
	Name    string
	Summary string
	// Op is the operation as recorded; "" for a workload without a resource.
	Op history.Op
	// Amount is taken from the counter by one operation.
	Amount int64
	// Initial is the counter at the start of a choreographed scenario.
	Initial int64
	// Crowd is the counter at the start of free contention, and CrowdRounds how
	// many operations a client then does; 0: until the counter is used up.
	Crowd       int64
	CrowdRounds int
	// CrowdClients is how many clients contend unless told otherwise.
	CrowdClients int
}

// All workloads.
func All() []Workload {
	return []Workload{
		{
			Name: "stock", Op: history.Buy, Amount: 1, Initial: 1, Crowd: 200, CrowdClients: 8,
			Summary: "buyers read the stock, think, and write it back less one; oversold = sold − units",
		},
		{
			Name: "wallet", Op: history.Withdraw, Amount: 10, Initial: 100, Crowd: 100, CrowdRounds: 1, CrowdClients: 3,
			Summary: "clients read the balance, wait, and write it back less 10; a lost update is money given away",
		},
		{
			Name: "lock", CrowdRounds: 25, CrowdClients: 8,
			Summary: "acquire, hold, release; no resource",
		},
	}
}

// Find returns the named workload; the error lists the known ones.
func Find(name string) (Workload, error) {
	var names []string
	for _, w := range All() {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return Workload{}, fmt.Errorf("unknown workload %q; known are %s", name, strings.Join(names, ", "))
}

// The sync points of a critical section, in order: places where a client can be
// stopped while something is done to the world.
const (
	Acquired      = "acquired"       // the lock is granted
	Reentered     = "reentered"      // it was asked for once more by its holder, and that was answered
	ReadDone      = "read"           // the counter has been read
	BeforeWrite   = "before-write"   // thought; not known to have lost the lock; about to write
	Wrote         = "wrote"          // the write was answered
	Left          = "left"           // the inner of two holds was given back
	BeforeRelease = "before-release" // about to give the lock back
	Released      = "released"       // the release was answered
)

// Partial is a way in which the lock does not cover all of the work.
type Partial string

const (
	LookFirst    Partial = "look-first"    // the resource is read before the lock is taken
	ReleaseFirst Partial = "release-first" // the lock is given back before the write
)

// Errors of [Workload.Do], beside those of the resource.
var (
	// ErrSoldOut: the value read was smaller than the amount; nothing was written.
	ErrSoldOut = errors.New("not enough left")
	// ErrGaveUp: the lock was known to be lost before the write; nothing was written.
	ErrGaveUp = errors.New("the lock was lost before the write")
	// ErrRead wraps what went wrong with the read; nothing was written.
	ErrRead = errors.New("reading the resource")
)

// Section is the surroundings of one critical section.
type Section struct {
	Fence int64           // fencing token of the hold; 0 for none
	Lost  <-chan struct{} // closed when the lock is known to be lost; may be nil
	Think time.Duration   // between read and write
	Seen  *int64          // what was read of the resource before; nil: read it now
	// At is called at each sync point passed, and may take its time.
	At func(point string) error
}

// Look reads the resource. Its error is [ErrStale] or wraps [ErrRead].
func Look(ctx context.Context, r Resource, fence int64) (int64, error) {
	seen, err := r.Read(ctx, fence)
	if err != nil && !errors.Is(err, ErrStale) {
		err = fmt.Errorf("%w: %w", ErrRead, err)
	}
	return seen, err
}

// Do takes the amount from the counter: read, think, write. It returns the value
// seen, and whether it saw one. Unless the error is one of this package's or
// [ErrStale], an error leaves open whether the write happened.
func (w Workload) Do(ctx context.Context, r Resource, s Section) (seen int64, known bool, err error) {
	if s.Seen != nil {
		seen = *s.Seen
	} else {
		if seen, err = Look(ctx, r, s.Fence); err != nil {
			return 0, false, err
		}
		if err := s.At(ReadDone); err != nil {
			return seen, true, err
		}
	}
	if s.Think > 0 {
		select {
		case <-time.After(s.Think):
		case <-ctx.Done():
			return seen, true, fmt.Errorf("%w: %w", ErrGaveUp, ctx.Err())
		}
	}
	if seen < w.Amount {
		return seen, true, ErrSoldOut
	}
	// A careful client looks once more whether it still has the lock. It cannot
	// look later than this: between here and the write anything may happen.
	select {
	case <-s.Lost:
		return seen, true, ErrGaveUp
	default:
	}
	if err := s.At(BeforeWrite); err != nil {
		return seen, true, err
	}
	return seen, true, r.Write(ctx, seen-w.Amount, s.Fence)
}
