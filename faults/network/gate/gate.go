package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// Held is a command or reply that is being kept back.
type Held struct {
	ID      int64    `json:"id"`      // unique at its gate, in the order of arrival there
	Conn    int64    `json:"conn"`    // connection, numbered from 1 in the order of accepting
	Command string   `json:"command"` // name in upper case; of a reply, that of its command
	Args    []string `json:"args"`    // up to three first arguments, each cut to 64 bytes
	Reply   bool     `json:"reply"`
}

// HoldSpec says what to keep back.
type HoldSpec struct {
	// Commands are names, in either case; "SCRIPT LOAD" names a sub-command only.
	// "*" stands for every command but those that set a connection up: HELLO, AUTH,
	// CLIENT and SELECT are held only if named.
	Commands []string `json:"commands"`
	// Reply keeps back the replies to the commands, not the commands.
	Reply bool `json:"reply"`
	// Max is how many are kept back in all; later ones pass. 0 is no limit.
	Max int `json:"max"`
}

// DropSpec says which replies to swallow.
type DropSpec struct {
	Commands []string `json:"commands"` // as in HoldSpec
	Count    int      `json:"count"`    // how many; 0 is no limit
	// Reset closes the connection behind a swallowed reply.
	Reset bool `json:"reset"`
}

var (
	errOver   = errors.New("it was released, or its link closed")
	errNoItem = errors.New("no such item is being held")
	errLost   = errors.New("no answer was seen: the connection ended, or its replies cannot be told apart")
)

// gate is one link: its connections, and what is to be kept back on them.
type gate struct {
	mu       sync.Mutex
	conns    int64
	unpaired *conn // its replies' half is still to come
	items    int64
	orders   int64
	holds    []*hold
	drops    []*drop
	changed  chan struct{} // closed and replaced at every change that somebody may await
}

type hold struct {
	id      int64
	spec    HoldSpec
	match   matcher
	taken   int     // items kept back so far
	waiting []*item // in the order of arrival
	over    bool
}

type drop struct {
	id    int64
	spec  DropSpec
	match matcher
	taken int // replies begun to swallow
	done  int // replies swallowed whole
	over  bool
}

// item is one frame that was kept back. The gate's mutex guards it.
type item struct {
	Held
	hold     *hold
	let      chan struct{} // closed when it may pass
	done     chan struct{} // closed when it was answered or never will be
	answered bool          // of what done is closed for
}

func (it *item) end(answered bool) {
	select {
	case <-it.done:
	default:
		it.answered = answered
		close(it.done)
	}
}

// notify wakes whoever awaits a change. The caller holds mu.
func (g *gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// await blocks until check, called with mu held, says that it is done or fails.
func (g *gate) await(ctx context.Context, check func() (bool, error)) error {
	for {
		g.mu.Lock()
		ok, err := check()
		changed := g.changed
		g.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// accept begins a connection.
func (g *gate) accept() *conn {
	g.mu.Lock()
	widow := g.unpaired
	g.conns++
	c := newConn(g, g.conns)
	g.unpaired = c
	g.mu.Unlock()
	if widow != nil {
		widow.goBlind()
	}
	return c
}

// pair returns the connection that accept began.
func (g *gate) pair() *conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.unpaired
	g.unpaired = nil
	if c == nil { // the toxic was added to a live connection: its past is unknown
		c = newConn(g, 0)
		c.blind = true
	}
	return c
}

// keep decides whether to hold the command, or its reply, and registers it.
func (g *gate) keep(c *conn, cmd command, reply bool) *item {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.holds {
		if h.spec.Reply != reply || (h.spec.Max > 0 && h.taken >= h.spec.Max) || !h.match.matches(cmd) {
			continue
		}
		g.items++
		it := &item{
			Held: Held{ID: g.items, Conn: c.id, Command: cmd.name, Args: cmd.args, Reply: reply},
			hold: h, let: make(chan struct{}), done: make(chan struct{}),
		}
		h.taken++
		h.waiting = append(h.waiting, it)
		g.notify()
		return it
	}
	return nil
}

// swallow decides whether the reply to a command is to be dropped.
func (g *gate) swallow(cmd command) *drop {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.drops {
		if (d.spec.Count == 0 || d.taken < d.spec.Count) && d.match.matches(cmd) {
			d.taken++
			return d
		}
	}
	return nil
}

func (g *gate) swallowed(d *drop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d.done++
	g.notify()
}

func (g *gate) answered(it *item) {
	g.mu.Lock()
	defer g.mu.Unlock()
	it.end(true)
}

// lose ends an item whose connection has ended.
func (g *gate) lose(it *item) {
	g.mu.Lock()
	defer g.mu.Unlock()
	it.end(false)
	it.hold.waiting = slices.DeleteFunc(it.hold.waiting, func(x *item) bool { return x == it })
	g.notify()
}

func (g *gate) addHold(spec HoldSpec) *hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orders++
	h := &hold{id: g.orders, spec: spec, match: newMatcher(spec.Commands)}
	g.holds = append(g.holds, h)
	return h
}

func (g *gate) findHold(id int64) *hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.holds, func(h *hold) bool { return h.id == id })
	if i < 0 {
		return nil
	}
	return g.holds[i]
}

// next lets the item of that id through, the oldest for 0.
func (g *gate) next(h *hold, id int64) (*item, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, it := range h.waiting {
		if id == 0 || it.ID == id {
			h.waiting = slices.Delete(h.waiting, i, i+1)
			close(it.let)
			g.notify()
			return it, nil
		}
	}
	return nil, errNoItem
}

// release lets everything through and disarms the hold.
func (g *gate) release(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = slices.DeleteFunc(g.holds, func(x *hold) bool { return x == h })
	h.over = true
	for _, it := range h.waiting {
		close(it.let)
	}
	h.waiting = nil
	g.notify()
}

func (g *gate) addDrop(spec DropSpec) *drop {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orders++
	d := &drop{id: g.orders, spec: spec, match: newMatcher(spec.Commands)}
	g.drops = append(g.drops, d)
	return d
}

func (g *gate) findDrop(id int64) *drop {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.drops, func(d *drop) bool { return d.id == id })
	if i < 0 {
		return nil
	}
	return g.drops[i]
}

func (g *gate) disarm(d *drop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drops = slices.DeleteFunc(g.drops, func(x *drop) bool { return x == d })
	d.over = true
	g.notify()
}

// open ends every hold and drop.
func (g *gate) open() {
	g.mu.Lock()
	holds, drops := slices.Clone(g.holds), slices.Clone(g.drops)
	g.mu.Unlock()
	for _, h := range holds {
		g.release(h)
	}
	for _, d := range drops {
		g.disarm(d)
	}
}

// matcher is a set of command names in upper case.
type matcher map[string]bool

func newMatcher(names []string) matcher {
	m := matcher{}
	for _, n := range names {
		m[strings.ToUpper(strings.Join(strings.Fields(n), " "))] = true
	}
	return m
}

// setup are the commands with which a client begins a connection.
var setup = map[string]bool{"HELLO": true, "AUTH": true, "CLIENT": true, "SELECT": true}

func (m matcher) matches(cmd command) bool {
	if m["*"] && !setup[cmd.name] || m[cmd.name] {
		return true
	}
	return len(cmd.args) > 0 && m[cmd.name+" "+strings.ToUpper(cmd.args[0])]
}
