// Package history holds what every client of a trial saw: events in the order of
// one clock, and a header that says what was run. It is written by workers and the
// coordinator, and read by the checker; it knows nothing of either.
package history

import "fmt"

// Type says what an [Event] announces. The words are Jepsen's.
type Type uint8

const (
	// Invoke: the operation is about to be sent.
	Invoke Type = iota + 1
	// OK: the operation happened.
	OK
	// Fail: the operation certainly did not happen, and never will.
	Fail
	// Info: the operation may have happened, or may yet (a timeout, a reset
	// connection, a killed worker). It is neither OK nor Fail.
	Info
	// Note is not an operation but a mark: a sync point reached, a fault
	// injected or healed, a lock telling its holder of the loss, or what a
	// server executed. A Note never opens or closes an operation.
	Note
)

// Op names an operation of a client, or the subject of a [Note].
type Op string

// Operations of clients.
const (
	Acquire  Op = "acquire"  // take the lock; Hold names this attempt, unique in the history
	Extend   Op = "extend"   // prolong the lease of Hold by a full TTL
	Release  Op = "release"  // give Hold back; Fail with [NotHeld] is the lock's "not mine any more"
	Buy      Op = "buy"      // sell one unit of stock; the value is what the buyer saw before the sale
	Withdraw Op = "withdraw" // take Header.Amount from the wallet; the value is the balance seen before
	Read     Op = "read"     // read the resource without changing it; the value is what was read
)

// Subjects of notes.
const (
	Lost  Op = "lost"  // the lock told the holder of Hold that it is lost; belief ends here
	Sync  Op = "sync"  // a client reached the sync point named by Text
	Fault Op = "fault" // nemesis: a fault begins (Node, Text)
	Heal  Op = "heal"  // nemesis: the fault of the same Node and Text ends
	Dead  Op = "dead"  // nemesis: the client process of Process is being killed; its belief ends here
	Bite  Op = "bite"  // nemesis: proof that the scenario's fault did what it was for
	Miss  Op = "miss"  // nemesis: the scenario's fault did not bite, with the reason: the trial tested nothing
	// The witness: what a server executed on a lock key, stamped when the
	// witness heard of it, which is never before the server did it.
	Exec Op = "exec"
)

// Error codes: the first word of Event.Error. What follows a colon is for people.
const (
	Busy    = "busy"     // acquire: somebody else holds the lock
	NotHeld = "not-held" // release, extend: the lock says it is not ours (any more)
	SoldOut = "sold-out" // buy, withdraw: the value seen was too small
	Stale   = "stale"    // buy, withdraw: the guard refused a fencing token older than the newest seen
	GaveUp  = "gave-up"  // buy, withdraw: the client knew its lock was lost and wrote nothing
	Refused = "refused"  // any: the server or the lock refused for another reason; nothing happened
	Unknown = "unknown"  // with Info: no answer, or one that does not tell
)

// Processes that are not clients. They appear in notes only.
const (
	Nemesis = -1 // the coordinator, injecting faults
	Witness = -2 // the direct connection to a server that watches the lock keys
)

// Event is one line of a history. Which fields mean something depends on Type and
// Op; a zero field means "none".
type Event struct {
	// Time in nanoseconds of the machine's monotonic clock (internal/clock). In
	// a merged history it counts from the trial's start, Header.Origin.
	Time    int64
	Process int
	Type    Type
	Op      Op
	Key     string // lock key, or resource key for buy, withdraw, read
	Hold    int64  // which hold of the lock the operation belongs to; from 1
	// Value is the argument of an invocation or the result of a completion,
	// see [Op]. Known says that it is meant, since 0 is a value too.
	Value int64
	Known bool
	// Fence is the fencing token of a granted acquire, or the one shown to the
	// resource by a buy or withdraw.
	Fence int64
	// Deadline is the moment, on the same clock as Time, until which the lock
	// says a granted or extended lease lasts; 0 for locks that never expire.
	Deadline int64
	Error    string // code, or "code: text"
	Node     string // notes: the server or worker concerned
	Text     string // notes: for people; for Sync the name of the sync point
	// Server effects, in notes of Op Exec only: the command's effect on Key.
	Effect Effect
	TTL    int64 // Exec with effect Set or Extended: nanoseconds until expiry, 0 for never
}

// Effect is what one executed command (or an expiry) did to a key.
type Effect string

const (
	Set      Effect = "set"      // the key now exists and belongs to Hold (0: to nobody known)
	Removed  Effect = "removed"  // deleted by a command
	Expired  Effect = "expired"  // deleted by the server because its time was up
	Evicted  Effect = "evicted"  // deleted by the server for want of memory
	Extended Effect = "extended" // its expiry was moved
	Denied   Effect = "denied"   // the command found the key taken or not its own, and changed nothing
)

// Code returns the machine-readable part of Error.
func (e *Event) Code() string {
	for i := range len(e.Error) {
		if e.Error[i] == ':' {
			return e.Error[:i]
		}
	}
	return e.Error
}

// Header is the first line of a history: everything a judge needs to know that the
// events do not say.
type Header struct {
	Format  string `json:"format"`  // always [Format]
	Version int    `json:"version"` // of the format, [Version]

	Lock     string `json:"lock"`
	Guard    string `json:"guard"`
	Scenario string `json:"scenario"`
	Workload string `json:"workload"`
	Trial    int    `json:"trial"`
	Seed     int64  `json:"seed"`

	// Traits of the lock that decide which properties apply.
	Locks   bool `json:"locks"`   // false for the control without any lock
	Expires bool `json:"expires"` // a hold ends by itself after TTL
	Fences  bool `json:"fences"`  // grants carry fencing tokens
	Notices bool `json:"notices"` // the lock finds out by itself that it lost a lease
	// Witnessed: notes of Op Exec tell what the servers executed.
	Witnessed bool `json:"witnessed"`
	// Nodes is the number of independent servers that hold the lock, a
	// majority of which makes a grant; 1 for all but Redlock.
	Nodes int `json:"nodes"`
	// Faulty: the scenario injects a fault, so a trial without a note of Op
	// Bite tested nothing.
	Faulty bool `json:"faulty"`

	Clients int   `json:"clients"` // client slots; see [Header.Client]
	TTL     int64 `json:"ttl"`     // nanoseconds
	Margin  int64 `json:"margin"`  // clock margin allowed to a lease, nanoseconds
	Initial int64 `json:"initial"` // units in stock, or the wallet's balance, at the start
	Amount  int64 `json:"amount"`  // taken by one buy (1) or withdraw

	Origin   int64             `json:"origin"`  // monotonic nanoseconds of time 0
	Started  string            `json:"started"` // wall clock, RFC 3339, for people
	Versions map[string]string `json:"versions,omitempty"`
}

const (
	Format  = "lockstress-history"
	Version = 1
)

// Role tells what a process number stands for.
type Role uint8

const (
	ClientRole    Role = iota // takes locks and works
	HeartbeatRole             // extends the lease of its client in the background
	AuditorRole               // reads the resource once everybody is done
	NemesisRole
	WitnessRole
)

// A process has at most one operation open at a time, and one whose outcome is
// unknown never acts again (Jepsen's rule). So a client goes on under a new number:
// numbers that are equal modulo slots belong to the same client.
func (h *Header) slots() int { return 2*h.Clients + 1 }

// Process returns the number of a client (0 … Clients−1) in a role after it has met
// the given number of unknown outcomes.
func (h *Header) Process(client int, role Role, generation int) int {
	switch role {
	case HeartbeatRole:
		client += h.Clients
	case AuditorRole:
		client = 2 * h.Clients
	case NemesisRole:
		return Nemesis
	case WitnessRole:
		return Witness
	}
	return client + generation*h.slots()
}

// Client is the inverse of [Header.Process]. The client is −1 for all roles but
// ClientRole and HeartbeatRole.
func (h *Header) Client(process int) (client int, role Role) {
	switch process {
	case Nemesis:
		return -1, NemesisRole
	case Witness:
		return -1, WitnessRole
	}
	slot := process % h.slots()
	switch {
	case slot < h.Clients:
		return slot, ClientRole
	case slot < 2*h.Clients:
		return slot - h.Clients, HeartbeatRole
	}
	return -1, AuditorRole
}

// History is a trial as recorded: Events are in order of Time.
type History struct {
	Header Header
	Events []Event
}

var typeNames = [...]string{Invoke: "invoke", OK: "ok", Fail: "fail", Info: "info", Note: "note"}

// String returns the word used in the file format.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}
