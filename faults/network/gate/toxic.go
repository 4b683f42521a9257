// Package gate is a toxic for Toxiproxy that speaks RESP. It keeps back a command, or
// its reply, until told to let it through, and swallows replies.
//
// One toxic does all of this, not one for each job, because all of it needs the same
// knowledge: which reply belongs to which command. It is installed in both directions
// of a link before the first connection and idles there, so that it has seen every
// connection from its first byte; what it is to do arrives through [Handler] and not
// as an attribute of the toxic, which Toxiproxy writes while other goroutines read it.
//
// A frame that is kept back is kept back by its last piece alone: a server does
// nothing before the last byte of a command, nor a client before that of a reply. So
// a value of any size streams through, and memory stays bounded.
package gate

import (
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// ToxicType is the name under which [Register] makes the toxic known to Toxiproxy.
const ToxicType = "resp_gate"

// Directions, values of [Toxic].Side.
const (
	Commands = "commands" // install it upstream
	Replies  = "replies"  // install it downstream
)

// Toxic is one direction of a gate, as Toxiproxy creates it from its attributes.
// Install it with toxicity 1.
type Toxic struct {
	Gate string `json:"gate"` // name of the gate, unique in the process
	Side string `json:"side"` // Commands or Replies
}

// Register makes the toxic known to every Toxiproxy server of this process.
var Register = sync.OnceFunc(func() { toxics.Register(ToxicType, new(Toxic)) })

// NewState joins a new connection to the gate. Toxiproxy's accept loop starts the
// upstream and then the downstream direction of one connection before it accepts the
// next (proxy.go), which is how the two find each other.
func (t *Toxic) NewState() any {
	g := gates.get(t.Gate)
	if t.Side == Commands {
		return newHalf(g.accept(), true)
	}
	return newHalf(g.pair(), false)
}

// Pipe implements toxics.Toxic.
func (t *Toxic) Pipe(stub *toxics.ToxicStub) {
	h, ok := stub.State.(*half)
	if !ok {
		new(toxics.NoopToxic).Pipe(stub)
		return
	}
	h.pipe(stub)
}

// Cleanup implements toxics.CleanupToxic: when the toxic is removed from a live
// connection, what it has kept goes on its way, and matching replies is over.
func (t *Toxic) Cleanup(stub *toxics.ToxicStub) {
	h, ok := stub.State.(*half)
	if !ok {
		return
	}
	h.conn.goBlind()
	for _, c := range h.surrender() {
		if stub.WriteOutput(c, 5*time.Second) != nil {
			return // nobody reads: the connection is ending
		}
	}
}

// gates are the gates of this process. Toxiproxy makes its toxics by reflection from
// their attributes, so a name is the only way in.
var gates = table{byName: map[string]*gate{}}

type table struct {
	mu     sync.Mutex
	byName map[string]*gate
}

// get returns the gate of that name, a new one if need be.
func (t *table) get(name string) *gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.byName[name]
	if g == nil {
		g = &gate{changed: make(chan struct{})}
		t.byName[name] = g
	}
	return g
}

func (t *table) find(name string) *gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name]
}

func (t *table) remove(name string) *gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.byName[name]
	delete(t.byName, name)
	return g
}
