package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// state of any model. What the fields mean is the model's own affair.
type state struct {
	holder int32
	n, m   int64
}

const nobody = -1

var lockWords = map[string]kind{
	"acquire": acquire, "lock": acquire, "try-lock": acquire,
	"release": release, "unlock": release,
}

var leaseWords = merge(lockWords, map[string]kind{
	"extend": extend, "renew": extend, "refresh": extend,
})

var registerWords = map[string]kind{"read": read, "write": write}

var counterWords = map[string]kind{
	"read": read, "add": add, "inc": add, "increment": add,
	"dec": subtract, "decrement": subtract, "sub": subtract, "subtract": subtract,
}

func merge(a, b map[string]kind) map[string]kind {
	c := maps.Clone(a)
	maps.Copy(c, b)
	return c
}

const (
	omitsHolds  = "whole holds of the lock are left out: what is legal with them is legal without"
	omitsReads  = "reads are left out: what is legal with them is legal without"
	omitsValues = "reads, and all that concerns one value, are left out: what is legal with them is legal without"
)

func wordList(words map[string]kind) string {
	return strings.Join(slices.Sorted(maps.Keys(words)), ", ")
}

// All returns the models.
func All() []Model {
	return []Model{
		{
			Name:          "mutex",
			Specification: "acquire is legal if the lock is free, release if it is taken, by whomever",
			words:         lockWords,
			start:         func(*Options) state { return state{} },
			apply:         func(s state, c *call, o *Options) (state, bool) { return permit(s, c, 1) },
			monitor:       monitorSemaphore,
			cuts:          cutPermits,
		},
		{
			Name:          "owner-mutex",
			Specification: "acquire is legal if the lock is free, release if the same process has it",
			words:         lockWords,
			start:         free,
			apply:         stepOwner,
			monitor:       monitorOwner,
			units:         unitsByHold,
			omits:         omitsHolds,
			owned:         true,
		},
		{
			Name:          "reentrant-mutex",
			Specification: "acquire is legal if the lock is free or the same process has it, release if the same process has it; it is free after as many releases as acquires",
			words:         lockWords,
			start:         free,
			apply:         stepReentrant,
			monitor:       monitorReentrant,
			units:         unitsByNest,
			omits:         omitsHolds,
			owned:         true,
			notes: func(o *Options) []string {
				if o.Depth == 0 {
					return []string{"a process may acquire as often as it likes (--depth 0)"}
				}
				return []string{fmt.Sprintf("a process may hold it up to %d times at once (--depth %d)", o.Depth, o.Depth)}
			},
		},
		{
			Name:          "fenced-mutex",
			Specification: "owner-mutex, and every acquire returns a larger fencing token than all before",
			words:         lockWords,
			start:         free,
			apply:         stepFenced,
			monitor:       monitorFenced,
			units:         unitsByHold,
			omits:         omitsHolds,
			owned:         true,
			notes: func(*Options) []string {
				return []string{"the token is the :value of an acquire's :ok, or :fence or :token in it; without one, or with 0, nothing is said about it"}
			},
		},
		{
			Name:          "lease",
			Specification: "acquire is legal if the lock is free, release and extend if the same process has it; it may become free by itself TTL after the latest acquire or extension",
			words:         leaseWords,
			start:         free,
			apply:         stepLease,
			monitor:       monitorLease,
			units:         unitsByHold,
			omits:         omitsHolds,
			owned:         true,
			timed:         true,
			notes: func(o *Options) []string {
				return []string{fmt.Sprintf("a lease may end from the invocation of its acquire or latest extension + %v − %v on (--ttl, --margin); how long it may last is not judged", o.TTL, o.Margin)}
			},
		},
		{
			Name:          "semaphore",
			Specification: "acquire is legal if so many permits are free, release if so many are taken, by whomever",
			words:         lockWords,
			start:         func(*Options) state { return state{} },
			apply:         func(s state, c *call, o *Options) (state, bool) { return permit(s, c, int64(o.Permits)) },
			monitor:       monitorSemaphore,
			cuts:          cutPermits,
			notes: func(o *Options) []string {
				return []string{fmt.Sprintf("%d permits, all free at first (--permits); an operation without a number takes or gives one", o.Permits)}
			},
		},
		{
			Name:          "counter",
			Specification: "add and its kin change the value by their argument (1 if there is none), read returns it",
			words:         counterWords,
			start:         func(*Options) state { return state{} },
			apply:         stepCounter,
			monitor:       monitorCounter,
			units:         unitsByRead,
			omits:         omitsReads,
			cuts:          cutCounter,
			notes: func(o *Options) []string {
				return []string{fmt.Sprintf("the value is %s at first (--initial)", orDefault(o.Initial, "0"))}
			},
		},
		{
			Name:          "cas-register",
			Specification: "read returns the value last written, cas [a b] is legal if the value is a, which becomes b",
			words:         merge(registerWords, map[string]kind{"cas": cas, "compare-and-set": cas}),
			start:         func(*Options) state { return state{} },
			apply:         stepRegister,
			cuts:          cutRegister,
			units:         unitsByRead,
			omits:         omitsReads,
			notes:         registerNotes,
		},
		{
			Name:          "register",
			Specification: "read returns the value last written",
			words:         registerWords,
			start:         func(*Options) state { return state{} },
			apply:         stepRegister,
			cuts:          cutRegister,
			units:         unitsByValue,
			omits:         omitsValues,
			notes:         registerNotes,
		},
	}
}

func registerNotes(o *Options) []string {
	rules := []string{fmt.Sprintf("the value is %s at first (--initial)", orDefault(o.Initial, "nil"))}
	if o.NilRead == Anything {
		return append(rules, "a read that returned nil says nothing (--nil-read anything)")
	}
	return append(rules, "a read that returned nil found nil (--nil-read empty)")
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func free(*Options) state { return state{holder: nobody} }

// permit: n permits are taken.
func permit(s state, c *call, of int64) (state, bool) {
	n := max(c.a, 1)
	switch c.kind {
	case acquire:
		s.n += n
		return s, s.n <= of
	case release:
		s.n -= n
		return s, s.n >= 0
	}
	return s, false
}

func stepOwner(s state, c *call, _ *Options) (state, bool) {
	switch c.kind {
	case acquire:
		return state{holder: c.owner}, s.holder == nobody
	case release:
		return state{holder: nobody}, s.holder == c.owner
	}
	return s, false
}

// stepReentrant: n is how often the holder has it.
func stepReentrant(s state, c *call, o *Options) (state, bool) {
	switch c.kind {
	case acquire:
		if s.holder != nobody && s.holder != c.owner || o.Depth > 0 && s.n >= int64(o.Depth) {
			return s, false
		}
		return state{holder: c.owner, n: s.n + 1}, true
	case release:
		if s.holder != c.owner {
			return s, false
		}
		if s.n--; s.n == 0 {
			s.holder = nobody
		}
		return s, true
	}
	return s, false
}

// stepFenced: n is the newest token, if m is 1.
func stepFenced(s state, c *call, o *Options) (state, bool) {
	next, ok := stepOwner(s, c, o)
	next.n, next.m = s.n, s.m
	if !ok || c.kind != acquire || c.token == 0 {
		return next, ok
	}
	if s.m == 1 && c.token <= s.n {
		return s, false
	}
	next.n, next.m = c.token, 1
	return next, true
}

// stepLease: n is the earliest moment at which the lease may end.
func stepLease(s state, c *call, o *Options) (state, bool) {
	until := c.invoke + max(0, int64(o.TTL-o.Margin))
	switch c.kind {
	case acquire:
		return state{holder: c.owner, n: until}, s.holder == nobody
	case release:
		return state{holder: nobody}, s.holder == c.owner
	case extend:
		s.n = max(s.n, until)
		return s, s.holder == c.owner
	case expire:
		return state{holder: nobody}, s.holder == c.owner && s.n <= c.invoke
	}
	return s, false
}

func stepCounter(s state, c *call, _ *Options) (state, bool) {
	switch c.kind {
	case add:
		s.n += c.a
		return s, true
	case read:
		return s, s.n == c.a
	}
	return s, false
}

func stepRegister(s state, c *call, _ *Options) (state, bool) {
	switch c.kind {
	case read:
		return s, s.n == c.a
	case write:
		return state{n: c.a}, true
	case cas:
		return state{n: c.b}, s.n == c.a
	}
	return s, false
}
