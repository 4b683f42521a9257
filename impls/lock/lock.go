// Package lock is what a distributed lock looks like to whoever uses one: the
// interface that every implementation under impls/ satisfies, the errors they may
// return, and what they are given to work with.
package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock is one implementation, connected on behalf of one client. Its methods may be
// called from one goroutine at a time; a [Lease] may outlive the call that made it.
type Lock interface {
	// Acquire tries until it is granted the lock of req.Key or until req.Wait
	// has passed since the call, whichever is first; it makes at least one
	// attempt and starts none after that moment. Errors:
	//
	//   - [ErrBusy]: every attempt was answered "taken". Nothing is held.
	//   - [ErrRefused]: the lock or the server declined for another reason, and
	//     certainly granted nothing to this caller.
	//   - [ErrUnknown]: what the servers did is not known; see [Certain].
	Acquire(ctx context.Context, req Request) (Lease, error)
	// Close ends background work and gives up nothing that is held.
	Close() error
}

// Request asks for one hold of a lock.
type Request struct {
	// Key is the name of the lock as stored; it carries a hash tag, {…}, so that
	// keys derived from it live in the same cluster slot.
	Key string
	// Owner is unique to this request. Locks with owner tokens store it as the
	// token, so that whoever watches the server can tell whose key it sees.
	Owner string
	// Wait bounds the retrying; 0 means one attempt.
	Wait time.Duration
}

// Lease is a granted hold.
type Lease interface {
	// Fence is the fencing token, 0 if the lock has none.
	Fence() int64
	// Deadline is when the lease ends unless extended, on the local monotonic
	// clock; the zero time for locks that never expire.
	Deadline() time.Time
	// Extend prolongs the lease by the full TTL. [ErrNotHeld] means the lock
	// says that it is no longer ours; [ErrUnsupported] that it cannot extend.
	Extend(ctx context.Context) error
	// Release gives the lock back. nil means "it was mine and now it is free";
	// [ErrNotHeld] means the lock says that it was not ours any more.
	Release(ctx context.Context) error
	// Lost is closed once the lock has found out, by itself, that it lost the
	// lease. nil for locks that never find out.
	Lost() <-chan struct{}
}

var (
	ErrBusy        = errors.New("lock is taken")
	ErrNotHeld     = errors.New("lock is not held by this owner")
	ErrRefused     = errors.New("lock refused")
	ErrUnsupported = errors.New("not supported by this lock")
	// ErrUnknown marks an operation that may have happened, or may yet: the
	// request may have reached a server and no answer tells what became of it.
	// An error that is ErrUnknown is none of the other four.
	ErrUnknown = errors.New("outcome unknown")
)

// Env is what an implementation is built from.
type Env struct {
	// Nodes are connections to the servers that hold the lock: one, or for a
	// quorum lock one per independent node. They belong to the caller. They do
	// not retry by themselves, so an error speaks of exactly one attempt.
	Nodes []redis.UniversalClient
	TTL   time.Duration
	// RetryMin and RetryMax bound the random pause between attempts.
	RetryMin, RetryMax time.Duration
	Rand               *rand.Rand
	// Replicas is how many replicas must acknowledge a grant, for locks that
	// wait for replication; 0 means 1.
	Replicas int
	// Extended, if not nil, is told of every extension a lock makes in the
	// background: once before it is sent, once when its outcome is known.
	Extended Observer
}

// Observer hears of background extensions of the hold requested as owner. Its
// methods are called from the goroutine that extends.
type Observer interface {
	Extending(owner string)
	// Extended gives the outcome: err as returned by an Extend, and the new
	// deadline if err is nil.
	Extended(owner string, deadline time.Time, err error)
	// Lost says that the lock has told its holder that the lease is lost. It is
	// called before the channel of [Lease.Lost] is closed.
	Lost(owner string)
}
