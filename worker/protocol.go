// Package worker is the client process: it hosts some clients, each with a lock and
// a workload, obeys the coordinator over a pipe, and records what its clients see.
//
// [Run] is the process itself; [Remote] is how the coordinator holds one.
package worker

import (
	"time"

	"lockstress/history"
	"lockstress/workload"
)

// Config is the first line that a worker reads on its standard input.
type Config struct {
	Worker  int            `json:"worker"`
	Clients []int          `json:"clients"` // slots of the clients that it hosts
	Journal string         `json:"journal"` // path; the worker creates it
	Header  history.Header `json:"header"`
	// Nonce makes owner tokens unique among runs that share a server.
	Nonce    string        `json:"nonce"`
	TTL      time.Duration `json:"ttl_ns"`
	RetryMin time.Duration `json:"retry_min_ns"`
	RetryMax time.Duration `json:"retry_max_ns"`
	// Retries is how often the Redis client itself repeats a command that failed.
	Retries     int    `json:"retries,omitempty"`
	Key         string `json:"key"`
	ResourceKey string `json:"resource_key"`
	Resource    string `json:"resource"` // address of the resource's server; "" for none
	// Nodes are the addresses of the lock's servers, as this worker reaches
	// them. With Sentinels, they are found through those instead.
	Nodes     []string          `json:"nodes,omitempty"`
	Sentinels []string          `json:"sentinels,omitempty"`
	Master    string            `json:"master,omitempty"`   // the Sentinels' name for the primary
	Redirect  map[string]string `json:"redirect,omitempty"` // announced address → this worker's own link to it
}

// Order tells one client to do some rounds: acquire, work, release.
type Order struct {
	// Rounds to do; 0 means until the resource is used up, or for as long as For
	// says.
	Rounds int           `json:"rounds"`
	For    time.Duration `json:"for_ns,omitempty"`
	// Wait is how long one round may take to get the lock, errors included.
	Wait time.Duration `json:"wait_ns"`
	// Think is the most that a client thinks between read and write; the time
	// is random.
	Think time.Duration `json:"think_ns"`
	// Stepped clients stop at every sync point until told to go on; the others
	// pass them without a word.
	Stepped bool `json:"stepped"`
	// Idle clients take the lock and give it back without touching the resource.
	Idle bool `json:"idle,omitempty"`
	// Reenter makes the client acquire the lock once more while it holds it, and
	// wait for that as long; 0: it does not.
	Reenter time.Duration `json:"reenter_ns,omitempty"`
	// Partial is how the lock fails to cover the work; "": it covers all of it.
	Partial workload.Partial `json:"partial,omitempty"`
}

// message is one line from the coordinator to the worker.
type message struct {
	Client int    `json:"client"`
	Order  *Order `json:"order,omitempty"` // nil: go on from the sync point
	Free   bool   `json:"free,omitempty"`  // from here on, do not stop any more
}

// Stop is one line from the worker to the coordinator: a client stands at a sync
// point, or its order is done.
type Stop struct {
	Client int    `json:"client"`
	Point  string `json:"point,omitempty"` // "" if the order is done
	Hold   int64  `json:"hold,omitempty"`
	// Of the last round, once the order is done: how each operation ended, ""
	// for one that was not begun. See [Ended].
	Acquire string `json:"acquire,omitempty"`
	Work    string `json:"work,omitempty"`
	Release string `json:"release,omitempty"`
	// Took is how long the client tried to acquire, errors and pauses included;
	// Again how the acquire within the hold ended.
	Took  time.Duration `json:"took_ns,omitempty"`
	Again string        `json:"again,omitempty"`
	// Grants is how many rounds of the order were granted the lock.
	Grants int `json:"grants,omitempty"`
	// Ready is the worker's first line; Fatal its last, if it cannot go on.
	Ready bool   `json:"ready,omitempty"`
	Fatal string `json:"fatal,omitempty"`
}

// Done says that the client's order is done.
func (s Stop) Done() bool { return s.Point == "" }

// Ended is how a [Stop] names an operation that ended well; any other word is the
// code of its error.
const Ended = "ok"
