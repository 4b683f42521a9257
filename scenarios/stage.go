// Package scenarios holds the choreographies: each scenario is one file that says
// what it needs, to which locks and guards it applies, and what happens when.
package scenarios

import (
	"context"
	"errors"
	"time"

	"lockstress/impls"
	"lockstress/worker"
	"lockstress/workload"
)

// Cell is what one trial is about.
type Cell struct {
	Lock     impls.Info
	Guard    workload.Guard
	Workload workload.Workload
	TTL      time.Duration // of the lock, as the scenario wants it
	Clients  int
	Workers  int // processes that host a crowd of clients
}

// Stage is where a scenario plays: the clients and the world around them. What is
// done to the world through it is noted in the history.
type Stage interface {
	Cell() Cell
	Client(i int) Client
	// Pause stops the whole process of a client; Resume lets it go on.
	Pause(ctx context.Context, client int) error
	Resume(client int) error
	// Hold keeps the named commands of a client back on their way to the lock's
	// servers, until they are let go.
	Hold(ctx context.Context, client int, commands ...string) (Held, error)
	// AwaitRefusal returns once a server has refused an acquire, counted from
	// the start of the trial.
	AwaitRefusal(ctx context.Context) error
	Servers() Servers
	// Bite notes the proof that the fault did what the scenario is for; Miss
	// notes that it did not, so that the trial tested nothing.
	Bite(format string, args ...any)
	Miss(format string, args ...any)
}

// Client is one client, obeying.
type Client interface {
	// Order gives it something to do; it begins at once.
	Order(o worker.Order) error
	// To lets a stepped client go on until it stands at one of the points, or
	// its order is done, whichever is first. If ctx ends before, the client
	// is still on its way, and To may be called again.
	To(ctx context.Context, points ...string) (worker.Stop, error)
	// Go lets it go on without waiting for anything.
	Go() error
	// Finish lets it go on, stopping no more, until its order is done.
	Finish(ctx context.Context) (worker.Stop, error)
}

// Held are commands on their way that are kept back.
type Held interface {
	// Wait returns once n commands are being held.
	Wait(ctx context.Context, n int) error
	// Release lets all of them go, and holds no more.
	Release(ctx context.Context) error
}

// Servers are those that hold the lock.
type Servers interface {
	Primary() string
	// Holders names the servers on which the lock's key now exists.
	Holders(ctx context.Context) ([]string, error)
	// StallReplication keeps what the primary accepts from its replicas;
	// HealReplication lets it through again, and waits until they have it.
	StallReplication(ctx context.Context) error
	HealReplication(ctx context.Context) error
	Kill(ctx context.Context, node string) error
	// Promote makes a replica the primary and points the clients to it, as an
	// operator or a virtual address would. It returns its name.
	Promote(ctx context.Context) (string, error)
	// AwaitFailover returns the new primary once the Sentinels have agreed.
	AwaitFailover(ctx context.Context) (string, error)
}

// Topology says which servers a scenario needs for the lock.
type Topology string

const (
	Single      Topology = "single"      // one server
	Replicated  Topology = "replicated"  // a primary and a replica
	Sentinel    Topology = "sentinel"    // the same, watched by three Sentinels
	Independent Topology = "independent" // five servers that know nothing of each other
)

// Scenario is a choreography.
type Scenario struct {
	Name    string
	Summary string
	// Timeline is the story in short, for people.
	Timeline string
	// Faulty scenarios inject a fault; a trial of theirs counts only if it bit.
	Faulty bool
	// Proxied scenarios need a proxy on every link to the lock's servers.
	Proxied bool
	// Alone scenarios measure time, so no other trial may run beside them.
	Alone bool
	// Crowd scenarios take the workload's crowd of clients, hosted by a few
	// workers; all others have three clients, each in a worker of its own.
	Crowd bool
	// MinTTL raises the lock's TTL, where the fault takes longer than that.
	MinTTL time.Duration
	// Topology for the lock in question.
	Topology func(impls.Info) Topology
	// Skip says why the scenario does not apply to a cell; "" if it does.
	Skip func(Cell) string
	Play func(ctx context.Context, s Stage) error
}

// Actors is how many clients a scenario without a crowd has: A, B and C.
const Actors = 3

// plain is the topology of a scenario in which the servers are well.
func plain(l impls.Info) Topology {
	switch {
	case l.Topology == impls.Quorum:
		return Independent
	case l.Replicas:
		return Replicated
	}
	return Single
}

// noLock is the reason why a scenario about losing a lock says nothing about having
// none.
func noLock(c Cell) string {
	if !c.Lock.Locks {
		return "there is no lock that could be lost"
	}
	return ""
}

// wait until a moment, or the end of ctx.
func wait(ctx context.Context, moment time.Time) error {
	t := time.NewTimer(time.Until(moment))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// toBy is To with a moment at which patience ends; reached is false if it did.
func toBy(ctx context.Context, moment time.Time, c Client, points ...string) (stop worker.Stop, reached bool, err error) {
	bounded, cancel := context.WithDeadline(ctx, moment)
	defer cancel()
	stop, err = c.To(bounded, points...)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return worker.Stop{}, false, nil
	}
	return stop, err == nil, err
}

// enter starts A, who must get the lock, and brings it to the point.
func enter(ctx context.Context, s Stage, point string) (Client, worker.Stop, bool, error) {
	a := s.Client(0)
	// Patience for a try or two more: on a loaded machine an answer may be late.
	if err := a.Order(once(s, 2*s.Cell().TTL)); err != nil {
		return nil, worker.Stop{}, false, err
	}
	stop, err := a.To(ctx, point)
	if err != nil {
		return nil, stop, false, err
	}
	if stop.Done() {
		s.Miss("client 0 could not get a lock that was free: acquire answered %q", stop.Acquire)
		return nil, stop, false, nil
	}
	return a, stop, true, nil
}

// once is one stepped round that waits for the lock as long as said.
func once(s Stage, patience time.Duration) worker.Order {
	return worker.Order{Rounds: 1, Wait: patience, Stepped: true}
}

// lastLook is the last point of a critical section before it does what the lock is
// there to protect.
func lastLook(s Stage) string {
	if s.Cell().Workload.Op == "" {
		return workload.BeforeRelease
	}
	return workload.BeforeWrite
}

// inside is a point at which a client holds the lock and is at work.
func inside(s Stage) string {
	if s.Cell().Workload.Op == "" {
		return workload.Acquired
	}
	return workload.ReadDone
}
