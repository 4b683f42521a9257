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
	// Crash kills the whole process of a client and returns once it is gone.
	// What it had sent is still on its way.
	Crash(ctx context.Context, client int) error
	Network
	// AwaitRefusal returns once a server has refused an acquire, counted from
	// the start of the trial.
	AwaitRefusal(ctx context.Context) error
	Servers() Servers
	// Bite notes the proof that the fault did what the scenario is for; Miss
	// notes that it did not, so that the trial tested nothing.
	Bite(format string, args ...any)
	Miss(format string, args ...any)
}

// Network are the ways from the clients to the servers. It needs a scenario that is
// Proxied, or ProxiedResource for the way to the resource.
type Network interface {
	// Hold keeps something back on its way, until it is let go.
	Hold(ctx context.Context, t Traffic) (Held, error)
	// DropReply swallows the replies to commands and closes the connection
	// behind each, as if the network had failed just then.
	DropReply(ctx context.Context, t Traffic) (Dropped, error)
	// Lose makes nodes unreachable for a client: what either side sends
	// vanishes. Cut makes them refuse its connections. Slow delays what passes
	// by d in each direction. Heal ends all three. No nodes means all.
	Lose(client int, nodes ...string) error
	Cut(client int, nodes ...string) error
	Slow(client int, d time.Duration, nodes ...string) error
	Heal(client int, nodes ...string) error
}

// Traffic is what passes between a client and servers.
type Traffic struct {
	Client   int
	Nodes    []string // of the lock's servers; none means all of them
	Resource bool     // on the way to the resource instead
	Commands []string // names; "*" stands for all
	Replies  bool     // to hold: not the commands but the replies to them
	What     string   // for people: "the release of A"
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

// Held is what is being kept back.
type Held interface {
	// Wait returns once n commands are being held on every link.
	Wait(ctx context.Context, n int) error
	// Count is how many are being held now, on the link with the fewest: those
	// whose sender or receiver has closed its connection may not be among them.
	Count(ctx context.Context) (int, error)
	// Step lets the oldest command on every link go, and returns once the
	// servers have answered.
	Step(ctx context.Context) error
	// Release lets all of them go, and holds no more.
	Release(ctx context.Context) error
}

// Dropped are replies that are being swallowed.
type Dropped interface {
	// Wait returns once n replies were swallowed on every link.
	Wait(ctx context.Context, n int) error
	// Disarm lets replies pass again.
	Disarm(ctx context.Context) error
}

// Servers are those that hold the lock.
type Servers interface {
	// Names of all of them, in order.
	Names() []string
	Primary() string
	// Holders names the servers on which the lock's key now exists; Stored is
	// its value on one of them, "" if there is none or it is no string.
	Holders(ctx context.Context) ([]string, error)
	Stored(ctx context.Context, node string) (string, error)
	// StallReplication keeps what the primary accepts from its replicas;
	// HealReplication lets it through again. AwaitReplication returns once the
	// replicas have all that was written until now.
	StallReplication(ctx context.Context) error
	HealReplication(ctx context.Context) error
	AwaitReplication(ctx context.Context) error
	Kill(ctx context.Context, node string) error
	// Restart starts a server again, killing it first if it lives. It has what
	// its topology says that it keeps.
	Restart(ctx context.Context, node string) error
	// Promote makes a replica the primary and points the clients to it, as an
	// operator or a virtual address would, except those who are left with the
	// old one. It returns its name.
	Promote(ctx context.Context, left ...int) (string, error)
	// Demote makes a server a replica of the present primary: it takes no writes
	// any more, and will have what the primary has and nothing else. Follow
	// points a client to the primary.
	Demote(ctx context.Context, node string) error
	Follow(client int) error
	// AwaitFailover returns the new primary once the Sentinels have agreed.
	AwaitFailover(ctx context.Context) (string, error)
	// Order gives an administrator's command to a server.
	Order(ctx context.Context, node string, args ...any) error
	// Info is a number of the server's INFO, such as "errorstat_NOSCRIPT"; for
	// fields that are lists it is that of their count. 0 if it is not there.
	Info(ctx context.Context, node, field string) (int64, error)
	// Fill gives a server little more memory than it uses and writes until what
	// belongs to the lock is gone, or until it refuses to write: refusal is
	// what it said then. Relieve takes the limit and what was written away.
	Fill(ctx context.Context, node, policy string) (refusal string, err error)
	Relieve(ctx context.Context, node string) error
}

// Topology says which servers a scenario needs for the lock.
type Topology string

const (
	Single      Topology = "single"      // one server
	Replicated  Topology = "replicated"  // a primary and a replica
	Sentinel    Topology = "sentinel"    // the same, watched by three Sentinels
	Independent Topology = "independent" // five servers that know nothing of each other
	Durable     Topology = "durable"     // the same, with an append-only file synced before every reply
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
	// ProxiedResource scenarios need one on every link to the resource's server.
	ProxiedResource bool
	// Extra scenarios are played only when asked for: by name, or as "all".
	Extra bool
	// Alone scenarios measure time, so no other trial may run beside them.
	Alone bool
	// Crowd scenarios take the workload's crowd of clients, hosted by a few
	// workers; all others have three clients, each in a worker of its own.
	Crowd bool
	// RetryMin and RetryMax bound the pause between attempts to acquire; 0 for the
	// usual ones. ClientRetries is how often the clients' library itself repeats
	// a command that failed.
	RetryMin, RetryMax time.Duration
	ClientRetries      int
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

// notQuorum is the reason why a scenario about some of several servers says nothing
// about a lock that lives on one.
func notQuorum(c Cell) string {
	if c.Lock.Topology != impls.Quorum {
		return "it does not live on several independent servers"
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

// enter starts A, who must get the lock, and brings it to the point. A busy machine
// may make a quorum lock miss its first try.
func enter(ctx context.Context, s Stage, point string) (Client, worker.Stop, bool, error) {
	a := s.Client(0)
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

// warmUp lets C take the lock and give it back while all is well: it can be had, and
// the servers know its scripts, so that every acquire and release is one command.
func warmUp(ctx context.Context, s Stage) (bool, error) {
	c := s.Client(2)
	if err := c.Order(worker.Order{Rounds: 1, Wait: 2 * s.Cell().TTL, Idle: true}); err != nil {
		return false, err
	}
	stop, err := c.Finish(ctx)
	if err == nil && stop.Acquire != worker.Ended {
		s.Miss("client 2 could not get a lock that was free: acquire answered %q", stop.Acquire)
	}
	return stop.Acquire == worker.Ended, err
}

// taking are the commands by which the lock is taken once it is warm.
func taking(s Stage) []string {
	if s.Cell().Lock.Topology == impls.Quorum {
		return []string{"SET"}
	}
	return []string{"SET", "SETNX", "EVALSHA"}
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
