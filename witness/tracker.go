package witness

import (
	"slices"
	"strings"

	"lockstress/history"
)

// tracker makes effects out of what a server says: keyspace events, each of which
// comes before the line of the command that caused it, and lines of MONITOR.
type tracker struct {
	node  string
	owner func(value string) int64
	key   func(stored string) (lock string, ok bool)
	emit  func(Seen)

	live    bool // false until a snapshot says what there is to begin with
	held    map[string]*held
	pending []change
	script  *script
	conns   map[string]*conn
	latest  int64 // time of the last effect reported
}

// held is a key that exists.
type held struct {
	hold   int64
	value  string
	expiry int64 // nanoseconds on the server's wall clock, 0 for never
}

// change is a keyspace event whose command is not known yet.
type change struct{ key, event string }

// script is a running script. That it has ended shows only in what comes after it.
type script struct {
	command
	by      int64
	looked  string // the first lock key that one of its commands named
	whose   string // the owner of that key when it was last looked at
	settled bool   // an effect or a refusal was reported
	at      int64  // when its last command was heard of
	ours    bool   // it is the witness's own
}

// conn is what is known about a client's connection.
type conn struct {
	name     string
	last     int64 // the hold named last
	upstream bool  // it leads to the node's primary
}

func newTracker(node string, owner func(string) int64, key func(string) (string, bool), emit func(Seen)) *tracker {
	return &tracker{node: node, owner: owner, key: key, emit: emit, held: map[string]*held{}, conns: map[string]*conn{}}
}

// push hears a keyspace event.
func (t *tracker) push(key, event string, at int64) {
	lock, ok := t.key(key)
	if !ok || !t.live {
		return
	}
	switch event {
	case "expired", "evicted":
		// A script that runs may have met the key that was due.
		t.gone(key, lock, event, at)
	case "new": // says only that the key did not exist; what follows says the rest
	default:
		t.pending = append(t.pending, change{key, event})
	}
}

func (t *tracker) tell(s Seen) {
	t.latest = s.Time
	t.emit(s)
}

// gone reports that the server removed a key by itself.
func (t *tracker) gone(key, lock, event string, at int64) {
	s := t.note(lock, at)
	s.Effect, s.Text = history.Expired, "expired"
	if event == "evicted" {
		s.Effect, s.Text = history.Evicted, "was evicted for want of memory"
	}
	if h := t.held[key]; h != nil {
		s.Hold, s.Value = h.hold, h.value
	}
	s.Text = "the key of " + holder(s.Hold, s.Value) + " " + s.Text
	delete(t.held, key)
	t.tell(s)
}

func (t *tracker) note(lock string, at int64) Seen {
	return Seen{Event: history.Event{
		Time: at, Process: history.Witness, Type: history.Note, Op: history.Exec, Key: lock, Node: t.node,
	}}
}

// line hears of an executed command.
func (t *tracker) line(l line, at int64) {
	c := newCommand(l)
	if l.from != "lua" {
		t.flush()
		t.connection(&c)
	}
	changes := t.pending
	t.pending = t.pending[:0]
	if !t.live || l.db != 0 && c.name != "FLUSHALL" {
		return
	}
	switch {
	case c.script():
		t.script = &script{command: c, by: t.named(c.values()), at: at}
		return
	case c.name == "FLUSHALL" || c.name == "FLUSHDB":
		t.flushed(&c, at)
		return
	}
	sender := t.sender(&c)
	if len(changes) > 0 {
		t.effects(&c, sender, changes, at)
	}
	for _, key := range c.keys() {
		lock, ok := t.key(key)
		if !ok {
			continue
		}
		if s := t.script; s != nil && l.from == "lua" {
			s.at = at
			if s.looked == "" {
				s.looked = key
			}
			if s.looked == key {
				s.whose = t.ownerOf(key)
			}
		}
		if len(changes) == 0 && writers[c.name] {
			t.denied(&c, sender, key, lock, at)
		}
	}
}

// connection keeps what is known about who speaks on a connection.
func (t *tracker) connection(c *command) {
	k := t.conns[c.from]
	if k == nil {
		k = &conn{}
		t.conns[c.from] = k
	}
	switch {
	case c.name == "CLIENT" && len(c.args) == 3 && strings.EqualFold(c.args[1], "SETNAME"):
		k.name = c.args[2]
	case c.name == "HELLO":
		k.name, k.last = "", 0 // a new client, on an address seen before
		for i := 2; i+1 < len(c.args); i++ {
			if strings.EqualFold(c.args[i], "SETNAME") {
				k.name = c.args[i+1]
			}
		}
	}
	if k.upstream || !slices.ContainsFunc(c.keys(), func(key string) bool { _, ok := t.key(key); return ok }) {
		return
	}
	if hold := t.named(c.values()); hold != 0 {
		k.last = hold
	}
}

// named returns the first hold named by an argument.
func (t *tracker) named(values []string) int64 {
	for _, v := range values {
		if hold := t.owner(v); hold != 0 {
			return hold
		}
	}
	return 0
}

// sender returns a note that says who sent the command: for a command of a script,
// who called the script.
func (t *tracker) sender(c *command) Seen {
	from := c.from
	by := t.named(c.values())
	if from == "lua" {
		if t.script == nil {
			return Seen{By: by}
		}
		from = t.script.from
		if t.script.by != 0 {
			by = t.script.by
		}
	}
	s := Seen{By: by, Conn: from}
	k := t.conns[from]
	if k == nil {
		return s
	}
	s.Client, s.Replicated = k.name, k.upstream
	if s.By == 0 {
		s.By = k.last
	}
	if s.Replicated {
		s.By = 0
	}
	return s
}

// effects reports what a command changed, once for each key.
func (t *tracker) effects(c *command, sender Seen, changes []change, at int64) {
	if t.script != nil && c.from == "lua" {
		t.script.settled = true
	}
	for i, first := range changes {
		if seenBefore(changes[:i], first.key) {
			continue
		}
		lock, _ := t.key(first.key)
		s := t.note(lock, at)
		s.By, s.Client, s.Conn, s.Replicated = sender.By, sender.Client, sender.Conn, sender.Replicated
		old := t.held[first.key]
		owner := holder(0, "")
		if old != nil {
			s.Hold, s.Value = old.hold, old.value
			owner = holder(old.hold, old.value)
		}
		switch t.effect(changes[i:], first.key) {
		case history.Removed:
			if s.Replicated && old != nil && old.expiry != 0 && old.expiry <= c.wall {
				// A replica does not expire keys; its primary tells it to.
				t.gone(first.key, lock, "expired", at)
				continue
			}
			s.Effect = history.Removed
			delete(t.held, first.key)
		case history.Extended:
			s.Effect = history.Extended
			if old == nil {
				old = &held{}
				t.held[first.key] = old
			}
			if when, ok := c.expiry(); ok {
				old.expiry = when
			}
			s.TTL = remaining(old.expiry, c.wall)
		default:
			s.Effect = history.Set
			now := t.stored(c, old)
			t.held[first.key] = now
			s.Hold, s.Value, s.TTL = now.hold, now.value, remaining(now.expiry, c.wall)
		}
		s.Text = s.sentence(t.verb(c), owner)
		t.tell(s)
	}
}

func seenBefore(changes []change, key string) bool {
	for _, c := range changes {
		if c.key == key {
			return true
		}
	}
	return false
}

// effect sums up the keyspace events of one command on one key: a "set" with its
// "expire" is a Set, an "hdel" with its "del" a removal.
func (t *tracker) effect(changes []change, key string) history.Effect {
	sum := history.Extended
	for _, c := range changes {
		switch {
		case c.key != key:
		case removal(c.event):
			return history.Removed
		case c.event != "expire" && c.event != "persist":
			sum = history.Set
		}
	}
	return sum
}

// stored is what a key holds after a command has written it.
func (t *tracker) stored(c *command, old *held) *held {
	now := &held{value: c.value(), hold: t.named(c.values())}
	if c.from == "lua" && now.hold == 0 && old == nil && t.script != nil {
		now.hold = t.script.by // the script has made a value of its own
	}
	if now.hold == 0 && old != nil && !replaces(c.name) {
		now.hold, now.value = old.hold, old.value // a count, say, within what the owner has
	}
	when, ok := c.expiry()
	if !ok && old != nil {
		when = old.expiry
	}
	now.expiry = when
	return now
}

// replaces says that a command puts a new value in the place of all that there was.
func replaces(name string) bool {
	switch name {
	case "SET", "SETNX", "SETEX", "PSETEX", "GETSET", "MSET", "MSETNX", "RENAME", "RENAMENX", "RESTORE", "COPY":
		return true
	}
	return false
}

// remaining is never 0 for a key that expires, since 0 means never.
func remaining(expiry, wall int64) int64 {
	if expiry == 0 {
		return 0
	}
	return max(expiry-wall, 1)
}

func (t *tracker) verb(c *command) string {
	if c.from == "lua" {
		return c.name + " in a script"
	}
	return c.name
}

// denied reports a command that meant to change a key and did not.
func (t *tracker) denied(c *command, sender Seen, key, lock string, at int64) {
	if t.script != nil && c.from == "lua" {
		t.script.settled = true
	}
	s := t.note(lock, at)
	s.Effect, s.Value = history.Denied, c.value()
	s.By, s.Client, s.Conn, s.Replicated = sender.By, sender.Client, sender.Conn, sender.Replicated
	s.Hold = s.By
	s.Text = s.sentence(t.verb(c), t.ownerOf(key))
	t.tell(s)
}

// ownerOf names whom a key belongs to, "" if there is no such key.
func (t *tracker) ownerOf(key string) string {
	if h := t.held[key]; h != nil {
		return holder(h.hold, h.value)
	}
	return ""
}

// flush ends the script that ran last. One that looked at a lock key and left it
// alone has refused what it was called for.
func (t *tracker) flush() {
	s := t.script
	t.script = nil
	if s == nil || s.settled || s.ours || s.looked == "" {
		return
	}
	lock, _ := t.key(s.looked)
	n := t.note(lock, max(s.at, t.latest))
	sender := t.sender(&s.command)
	n.Effect, n.By, n.Client, n.Conn = history.Denied, sender.By, sender.Client, sender.Conn
	n.Hold = n.By
	n.Text = n.sentence("a script", s.whose)
	t.tell(n)
}

// flushed reports the end of all keys, of which the server sends no keyspace events.
func (t *tracker) flushed(c *command, at int64) {
	sender := t.sender(c)
	for _, key := range sortedKeys(t.held) {
		lock, _ := t.key(key)
		s := t.note(lock, at)
		h := t.held[key]
		s.Effect, s.Hold, s.Value = history.Removed, h.hold, h.value
		s.Client, s.Conn, s.Replicated = sender.Client, sender.Conn, sender.Replicated
		s.Text = s.sentence(t.verb(c), holder(h.hold, h.value))
		t.tell(s)
	}
	clear(t.held)
}

// lose forgets what was under way when the connection was lost.
func (t *tracker) lose() {
	t.live, t.script, t.pending = false, nil, nil
}
