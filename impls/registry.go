// Package impls lists the locks. To add one, write its file and a line in [All].
package impls

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"lockstress/impls/control"
	"lockstress/impls/lock"
	"lockstress/impls/naive"
	"lockstress/impls/redlock"
	"lockstress/impls/token"
)

// Topology is what kind of servers a lock needs.
type Topology string

const (
	Single Topology = "single" // one node, which may have replicas
	Quorum Topology = "quorum" // several independent nodes
)

// Families, in the order in which they are shown.
const (
	Control = "control" // no lock: what locks are compared with
	Naive   = "naive"   // wrong even on one healthy Redis
	Token   = "token"   // SET NX PX, owner token, Lua, and its extensions
	Redlock = "redlock" // majority of independent nodes
)

// Info describes a lock and builds it.
type Info struct {
	Name     string
	Family   string
	Summary  string // what it is, in a few words
	Topology Topology
	Locks    bool // false for the control without any lock
	Expires  bool // a hold ends by itself after a TTL
	Fences   bool // grants carry fencing tokens
	Notices  bool // it finds out by itself that it lost a lease
	Replicas bool // it grants only what replicas have acknowledged, so there must be some
	// New builds the lock. The value returned is a *lock.Counted.
	New func(lock.Env) (lock.Lock, error)
}

// All lists the locks by family.
func All() []Info {
	return []Info{
		{Name: "none", Family: Control, Topology: Single, New: counted(control.NewNone),
			Summary: "no lock at all"},

		{Name: "naive", Family: Naive, Topology: Single, Locks: true, Expires: true, New: counted(naive.NewNaive),
			Summary: "SET NX PX with a constant value, DEL to release"},
		{Name: "setnx", Family: Naive, Topology: Single, Locks: true, New: counted(naive.NewSetnx),
			Summary: "SETNX without expiry, DEL to release"},
		{Name: "setnx-expire", Family: Naive, Topology: Single, Locks: true, Expires: true, New: counted(naive.NewSetnxExpire),
			Summary: "SETNX, then PEXPIRE as a second command"},
		{Name: "getset", Family: Naive, Topology: Single, Locks: true, Expires: true, New: counted(naive.NewGetset),
			Summary: "SETNX with the expiry time as value, GETSET to take over"},
		{Name: "check-del", Family: Naive, Topology: Single, Locks: true, Expires: true, New: counted(naive.NewCheckDel),
			Summary: "owner token, but GET then DEL to release"},

		{Name: "token", Family: Token, Topology: Single, Locks: true, Expires: true, New: counted(token.NewToken),
			Summary: "SET NX PX with a unique token, Lua check-and-delete"},
		{Name: "watchdog", Family: Token, Topology: Single, Locks: true, Expires: true, Notices: true, New: counted(token.NewWatchdog),
			Summary: "token with a heartbeat that extends and reports loss"},
		{Name: "wait", Family: Token, Topology: Single, Locks: true, Expires: true, Replicas: true, New: counted(token.NewWait),
			Summary: "token with WAIT for replicas, given back if too few acknowledge"},
		{Name: "reentrant", Family: Token, Topology: Single, Locks: true, Expires: true, New: counted(token.NewReentrant),
			Summary: "token that its holder can acquire again"},
		{Name: "fenced", Family: Token, Topology: Single, Locks: true, Expires: true, Fences: true, New: counted(token.NewFenced),
			Summary: "token with a fencing token from the same script"},

		{Name: "redlock", Family: Redlock, Topology: Quorum, Locks: true, Expires: true, New: counted(redlock.New),
			Summary: "majority of independent nodes, validity = TTL − elapsed − drift"},
		{Name: "redlock-watchdog", Family: Redlock, Topology: Quorum, Locks: true, Expires: true, Notices: true, New: counted(redlock.NewWatchdog),
			Summary: "redlock with a heartbeat that extends and reports loss"},
	}
}

// Find returns the lock of that name. The error lists the names there are, and the
// nearest first of all.
func Find(name string) (Info, error) {
	all := All()
	names := make([]string, len(all))
	for i, info := range all {
		if info.Name == name {
			return info, nil
		}
		names[i] = info.Name
	}
	nearest := slices.MinFunc(names, func(a, b string) int {
		return cmp.Compare(levenshtein.ComputeDistance(name, a), levenshtein.ComputeDistance(name, b))
	})
	return Info{}, fmt.Errorf("no lock is named %q; did you mean %s? known: %s", name, nearest, strings.Join(names, ", "))
}

func counted(build func(lock.Env) (lock.Lock, error)) func(lock.Env) (lock.Lock, error) {
	return func(env lock.Env) (lock.Lock, error) {
		l, err := build(env)
		if err != nil {
			return nil, err
		}
		return lock.Count(l), nil
	}
}
