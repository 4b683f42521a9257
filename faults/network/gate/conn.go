package gate

import (
	"strconv"
	"strings"
	"sync"

	"lockstress/internal/resp"
)

// maxPending bounds the memory of a client that sends and never reads. Beyond it the
// connection's replies are no longer matched.
const maxPending = 1 << 20

// command is what is known of a command that passes.
type command struct {
	name  string // upper case
	args  []string
	count int64 // words, the name included
}

// sent is a command on its way to the server, or there, whose reply is due.
type sent struct {
	command
	item     *item // if it was held: to be told of the answer
	confirms int64 // pub/sub commands: confirmations seen
	expect   int64 // pub/sub commands: confirmations due; 0 while unknown
}

// conn is one connection of a client, shared by its two halves. The k-th reply belongs
// to the k-th command, but for what a server sends of its own accord (pushes, pub/sub
// messages). Where that cannot be told apart, the connection turns blind and everything
// passes: replication, MONITOR, CLIENT REPLY.
type conn struct {
	gate *gate
	id   int64

	clientGone, serverGone         chan struct{} // closed when that side has ended
	clientGoneOnce, serverGoneOnce sync.Once

	mu      sync.Mutex
	pending []*sent
	// blind: the replies of this connection cannot be matched (any more).
	blind bool
	resp3 bool
	// Subscriptions as of the last confirmation that came by.
	channels, patterns, shards int64
}

func newConn(g *gate, id int64) *conn {
	return &conn{gate: g, id: id, clientGone: make(chan struct{}), serverGone: make(chan struct{})}
}

// goBlind ends the matching of replies: no answer will be known any more.
func (c *conn) goBlind() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.becomeBlind()
}

// becomeBlind is goBlind for who holds mu.
func (c *conn) becomeBlind() {
	c.blind = true
	for _, s := range c.pending {
		if s.item != nil {
			c.gate.lose(s.item)
		}
	}
	c.pending = nil
}

func (c *conn) isBlind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blind
}

func (c *conn) markClientGone() { c.clientGoneOnce.Do(func() { close(c.clientGone) }) }

func (c *conn) markServerGone() { c.serverGoneOnce.Do(func() { close(c.serverGone) }) }

// send notes a command that is about to be passed on.
func (c *conn) send(cmd command, it *item) {
	if !c.expectReply(cmd, it) && it != nil {
		c.gate.lose(it)
	}
}

// expectReply says whether the command's reply will be known when it comes.
func (c *conn) expectReply(cmd command, it *item) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blind {
		return false
	}
	s := &sent{command: cmd, item: it}
	switch cmd.name {
	case "PSYNC", "SYNC": // what comes back is a file, then the stream of replication
		c.becomeBlind()
		return false
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		s.expect = cmd.count - 1
	case "CLIENT":
		// After CLIENT REPLY OFF or SKIP the next command is not answered – unless the
		// server refuses it, as within MULTI, which shows too late.
		if len(cmd.args) > 0 && strings.EqualFold(cmd.args[0], "REPLY") {
			c.becomeBlind()
			return false
		}
	}
	if len(c.pending) >= maxPending {
		c.becomeBlind()
		return false
	}
	c.pending = append(c.pending, s)
	return true
}

// A pub/sub command is answered by one confirmation for each channel, which looks like
// a message, and is a push in RESP3.
func (s *sent) pubsub() bool { return strings.HasSuffix(s.name, "SUBSCRIBE") }

func (c *conn) subscribed() bool { return c.channels+c.patterns+c.shards > 0 }

// identified says that the frame has come far enough to be given to receive.
func (c *conn) identified(f *resp.Framer) bool {
	if f.Kind() != '*' {
		return f.Kind() != 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ambiguous := c.subscribed() || (len(c.pending) > 0 && c.pending[0].pubsub())
	return c.resp3 || !ambiguous || f.Identified()
}

// receive returns the command that a frame from the server is the reply to, or nil for
// what is not a reply: pushes, messages of pub/sub, confirmations of its commands.
func (c *conn) receive(f *resp.Framer) *sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blind || f.Kind() == '>' {
		return nil
	}
	if f.Kind() == '*' && !c.resp3 {
		first := f.First()
		if c.subscribed() && (first == "message" || first == "pmessage" || first == "smessage") {
			return nil
		}
		if len(c.pending) > 0 && c.pending[0].pubsub() && confirmation(first) {
			return nil
		}
	}
	if len(c.pending) == 0 {
		return nil
	}
	s := c.pending[0]
	c.pop()
	switch {
	case f.Kind() == '-':
	case s.name == "HELLO" && f.Kind() != '+': // within MULTI it is "+QUEUED"
		c.resp3 = f.Kind() == '%'
	case s.name == "RESET":
		c.channels, c.patterns, c.shards, c.resp3 = 0, 0, 0, false
	case s.name == "MONITOR": // lines without end follow, and look like replies
		c.becomeBlind()
	}
	return s
}

func confirmation(first string) bool { return strings.HasSuffix(first, "subscribe") }

// received takes a complete frame that is no reply: it may confirm a pub/sub command.
func (c *conn) received(f *resp.Framer) {
	if f.Kind() != '>' && f.Kind() != '*' {
		return
	}
	args := f.Args()
	if len(args) != 3 || !confirmation(args[0]) {
		return
	}
	total, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.countSubscriptions(args[0], total)
	if len(c.pending) == 0 || c.blind {
		return
	}
	s := c.pending[0]
	if s.name != strings.ToUpper(args[0]) {
		return // the server ended a subscription of its own accord
	}
	if s.expect == 0 { // "unsubscribe from all"
		s.expect = max(1, before)
	}
	if s.confirms++; s.confirms >= s.expect {
		if s.item != nil {
			c.gate.answered(s.item)
		}
		c.pop()
	}
}

func (c *conn) pop() {
	c.pending[0] = nil
	if c.pending = c.pending[1:]; len(c.pending) == 0 {
		c.pending = nil // a later append begins anew and does not grow the old array
	}
}

// countSubscriptions books the total that a confirmation carries (channels and patterns
// together, shard channels apart) and returns the count of its kind before.
func (c *conn) countSubscriptions(kind string, total int64) (before int64) {
	count := &c.channels
	switch kind[0] {
	case 'p':
		count = &c.patterns
		total -= c.channels
	default:
		total -= c.patterns
		if strings.HasPrefix(kind, "ss") || strings.HasPrefix(kind, "sun") {
			count, total = &c.shards, total+c.patterns
		}
	}
	before = *count
	*count = max(0, total)
	return before
}
