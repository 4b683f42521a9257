package witness

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstress/history"
)

// Seen is one effect on a lock key: a note of Op [history.Exec], with what a history
// has no room for.
//
// Hold is whom the key belongs to: after a Set its new owner; for Removed, Expired,
// Evicted and Extended the owner whose key it was; for Denied the one that was
// refused. 0 stands for unknown.
type Seen struct {
	history.Event
	// Value is what the key holds or held, or for Denied what was to be stored.
	Value string
	// By is the hold whose client sent the command: named in its arguments, or
	// else the last one named on the same connection, which is right as long as
	// clients do not share connections. 0 for unknown, and where the server acted
	// by itself.
	By     int64
	Client string // the name that the connection gave itself (CLIENT SETNAME); "" for none
	Conn   string // the connection's address as the server sees it; "" for none
	// Replicated: the command came from the node's primary, not from a client.
	Replicated bool
}

// sentence describes an effect of a command. owner is whose key it is before.
func (s *Seen) sentence(verb, owner string) string {
	var b strings.Builder
	b.WriteString(verb)
	if s.Effect == history.Set {
		fmt.Fprintf(&b, " %s", s.Key)
	}
	switch who := s.who(); {
	case s.Replicated:
		b.WriteString(" from the primary")
	case who != "":
		fmt.Fprintf(&b, " by %s", who)
	}
	switch s.Effect {
	case history.Set:
		if s.Hold != s.By || s.By == 0 {
			fmt.Fprintf(&b, " for %s", holder(s.Hold, s.Value))
		}
		fmt.Fprintf(&b, ", %s", expires(s.TTL))
	case history.Extended:
		fmt.Fprintf(&b, " on the key of %s: %s", owner, expires(s.TTL))
	case history.Removed:
		if s.By != 0 && s.By == s.Hold {
			owner += ", its own"
		}
		fmt.Fprintf(&b, " removed the key of %s", owner)
	case history.Denied:
		switch {
		case owner == "":
			b.WriteString(" changed nothing: there is no key")
		default:
			fmt.Fprintf(&b, " changed nothing: the key is that of %s", owner)
		}
	}
	return b.String()
}

// who names the sender of a command as well as is known.
func (s *Seen) who() string {
	if s.By != 0 {
		return holder(s.By, "")
	}
	if s.Client != "" {
		return "client " + s.Client
	}
	return ""
}

// holder names an owner as well as is known.
func holder(hold int64, value string) string {
	switch {
	case hold != 0:
		return "hold " + strconv.FormatInt(hold, 10)
	case value == "":
		return "nobody known"
	}
	return fmt.Sprintf("%.40q", value)
}

// expires is exact to the millisecond, rounded down as the server does.
func expires(ttl int64) string {
	if ttl == 0 {
		return "never expires"
	}
	return fmt.Sprintf("expires in %d ms", time.Duration(ttl).Milliseconds())
}
