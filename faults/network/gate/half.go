package gate

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"lockstress/internal/resp"
)

const (
	// maxBacklog bounds what a half reads ahead while it may not pass on. It reads
	// ahead at all only to notice that its side of the connection has ended.
	maxBacklog = 256 << 10
	// maxUnidentified bounds what is kept of a reply until it is told from a message.
	maxUnidentified = 64 << 10
	// lastWords is how long bytes may take to reach a peer that has ended its own side.
	lastWords = 5 * time.Second
)

// half is one direction of a connection. It lives in the stub's state: Toxiproxy
// interrupts and restarts Pipe whenever toxics come and go, and every byte taken from
// the stub's input is in here until it is passed on. Only one Pipe runs at a time.
type half struct {
	conn     *conn
	commands bool
	framer   *resp.Framer
	through  bool // not RESP: everything passes untouched

	in      []*stream.StreamChunk // not yet looked at
	inBytes int
	out     []*stream.StreamChunk // to be passed on
	held    *item
	last    []byte  // last piece of the held frame
	holding command // the held command
	latest  *item   // commands: the last item that was let go

	eof     bool // the input has ended
	farGone bool // the other side has ended
	closing bool // end the connection once out is passed on

	// The reply that is passing.
	known    bool   // it was identified: reply, dropping and unsure are settled
	reply    *sent  // nil: not a reply
	dropping *drop  // it is being swallowed
	unsure   []byte // its bytes so far, while it may still turn out to be one to swallow
	leaked   bool   // some of it was passed on before it was known
}

func newHalf(c *conn, commands bool) *half {
	h := &half{conn: c, commands: commands}
	if commands {
		h.framer = resp.NewRequestFramer()
	} else {
		h.framer = resp.NewReplyFramer()
	}
	return h
}

func (h *half) pipe(stub *toxics.ToxicStub) {
	near, far := h.conn.markServerGone, h.conn.clientGone
	if h.commands {
		near, far = h.conn.markClientGone, h.conn.serverGone
	}
	for {
		h.work()
		if h.over() {
			if h.latest == nil || h.closing {
				break
			}
			// The client is gone; its server is not to hear of it in the middle of the
			// command that was let go, nor are we to miss the answer.
			select {
			case <-stub.Interrupt:
				return
			case <-h.latest.done:
			case <-far:
			case <-time.After(lastWords):
			}
			break
		}
		// A nil channel is never ready.
		input, output, gone := stub.Input, stub.Output, far
		var first *stream.StreamChunk
		var let chan struct{}
		var timeout <-chan time.Time
		if h.eof || h.closing || h.inBytes >= maxBacklog {
			input = nil
		}
		if h.held != nil {
			let = h.held.let
		}
		if h.farGone {
			gone = nil
		}
		if len(h.out) == 0 {
			output = nil
		} else if first = h.out[0]; h.farGone {
			timeout = time.After(lastWords)
		}
		select {
		case <-stub.Interrupt:
			return
		case c := <-input:
			if c == nil {
				h.eof = true
				near()
			} else if len(c.Data) > 0 {
				h.in = append(h.in, c)
				h.inBytes += len(c.Data)
			}
		case output <- first:
			if h.out = h.out[1:]; len(h.out) == 0 {
				h.out = nil
			}
		case <-let:
			h.letGo()
		case <-gone:
			h.farGone = true
			h.abandon()
		case <-timeout:
			h.out = nil
			h.closing = true
		}
	}
	stub.Close()
	// The stubs before this one block for ever if nobody takes what they still bring. A
	// stub that is closed is interrupted no more.
	for range stub.Input {
	}
	near()
	if !h.commands {
		h.unanswered()
		h.conn.goBlind()
	}
}

// unanswered gives up the reply that is passing: its end will not be seen.
func (h *half) unanswered() {
	if h.reply != nil && h.reply.item != nil {
		h.conn.gate.lose(h.reply.item)
	}
	h.reply = nil
}

// work looks at what has come in until there is something to pass on or to hold.
func (h *half) work() {
	for len(h.out) == 0 && h.held == nil && !h.closing {
		if len(h.in) == 0 {
			if h.eof && len(h.unsure) > 0 {
				h.emit(h.unsure, time.Now())
				h.unsure = nil
				continue
			}
			return
		}
		c := h.in[0]
		if h.in = h.in[1:]; len(h.in) == 0 {
			h.in = nil
		}
		h.inBytes -= len(c.Data)
		switch {
		case h.through:
			h.out = append(h.out, c)
		case h.commands:
			h.workCommands(c)
		default:
			h.workReplies(c)
		}
	}
}

func (h *half) over() bool {
	return len(h.out) == 0 && h.held == nil && (h.closing || (h.eof && len(h.in) == 0 && len(h.unsure) == 0))
}

// abandon gives up what can never arrive, now that the far side has ended. A command
// has no server any more. A held reply has no client; replies that are not held may be
// the last words to a client that has ended its own side only.
//
// The near side's end is no reason to give up: what a client sent before it died, and a
// server before it was killed, is in the network and arrives.
func (h *half) abandon() {
	if h.commands {
		h.out = nil
	} else if h.held == nil {
		return
	}
	if h.held != nil {
		h.conn.gate.lose(h.held)
		h.held, h.last = nil, nil
	}
	h.in, h.inBytes, h.unsure, h.closing = nil, 0, nil, true
}

// letGo passes on the frame that was held.
func (h *half) letGo() {
	if h.commands {
		h.conn.send(h.holding, h.held)
		h.latest = h.held
	}
	// A latency toxic behind this one counts from the time of release.
	h.emit(h.last, time.Now())
	h.held, h.last, h.holding = nil, nil, command{}
}

// surrender returns everything that was kept, in order; the half is empty then.
func (h *half) surrender() []*stream.StreamChunk {
	if h.held != nil {
		h.conn.gate.lose(h.held)
		h.emit(h.last, time.Now())
		h.held, h.last = nil, nil
	}
	if len(h.unsure) > 0 {
		h.emit(h.unsure, time.Now())
		h.unsure = nil
	}
	h.unanswered()
	all := append(h.out, h.in...)
	h.out, h.in, h.inBytes, h.through = nil, nil, 0, true
	return all
}

func (h *half) emit(data []byte, at time.Time) {
	if len(data) > 0 {
		h.out = append(h.out, &stream.StreamChunk{Data: data, Timestamp: at})
	}
}

// hold keeps back data[from:to], the last piece of a frame, and puts back what follows.
func (h *half) hold(it *item, c *stream.StreamChunk, from, to int) {
	h.held, h.last = it, c.Data[from:to:to]
	if rest := c.Data[to:]; len(rest) > 0 {
		h.in = append([]*stream.StreamChunk{{Data: rest, Timestamp: c.Timestamp}}, h.in...)
		h.inBytes += len(rest)
	}
}

func (h *half) workCommands(c *stream.StreamChunk) {
	for pos := 0; pos < len(c.Data); {
		n, done, err := h.framer.Feed(c.Data[pos:])
		if err != nil {
			h.through = true
			h.conn.goBlind()
			break
		}
		// A server ignores an empty request.
		if done && h.framer.Count() > 0 {
			args := h.framer.Args()
			cmd := command{name: h.framer.Name(), args: args[1:], count: h.framer.Count()}
			if it := h.conn.gate.keep(h.conn, cmd, false); it != nil {
				h.emit(c.Data[:pos:pos], c.Timestamp)
				h.hold(it, c, pos, pos+n)
				h.holding = cmd
				return
			}
			h.conn.send(cmd, nil)
		}
		pos += n
	}
	h.out = append(h.out, c)
}

func (h *half) workReplies(c *stream.StreamChunk) {
	if h.conn.isBlind() && !h.framer.Within() {
		h.through = true
		h.out = append(h.out, c)
		return
	}
	from := 0 // what is before it was passed on or swallowed
	for pos := 0; pos < len(c.Data); {
		n, done, err := h.framer.Feed(c.Data[pos:])
		if err != nil {
			h.through = true
			h.unanswered()
			h.conn.goBlind()
			break
		}
		if !h.known && (done || h.conn.identified(h.framer)) {
			h.identify()
		}
		end := pos + n
		switch {
		case h.dropping != nil:
			h.emit(c.Data[from:pos:pos], c.Timestamp)
			from, h.unsure = end, nil
		case !h.known:
			h.emit(c.Data[from:pos:pos], c.Timestamp)
			h.unsure, from = append(h.unsure, c.Data[pos:end]...), end
			if len(h.unsure) > maxUnidentified {
				// Too long to be worth keeping: it is passed on, whatever it is.
				h.emit(h.unsure, c.Timestamp)
				h.unsure, h.leaked = nil, true
			}
		case len(h.unsure) > 0: // pos is 0
			h.emit(h.unsure, c.Timestamp)
			h.unsure = nil
		}
		if done && h.complete(c, from, pos, end) {
			return
		}
		pos = end
	}
	if len(h.unsure) > 0 && h.through {
		h.emit(h.unsure, c.Timestamp)
		h.unsure = nil
	}
	if from == 0 {
		h.out = append(h.out, c)
		return
	}
	h.emit(c.Data[from:], c.Timestamp)
}

// identify settles what the present frame is and whether to swallow it.
func (h *half) identify() {
	h.known = true
	h.reply = h.conn.receive(h.framer)
	if h.reply != nil && !h.farGone && !h.leaked {
		h.dropping = h.conn.gate.swallow(h.reply.command)
	}
}

// complete ends the frame data[pos:end]. It says whether to stop there.
func (h *half) complete(c *stream.StreamChunk, from, pos, end int) bool {
	g, reply, dropping := h.conn.gate, h.reply, h.dropping
	h.known, h.reply, h.dropping, h.leaked = false, nil, nil, false
	if reply == nil {
		h.conn.received(h.framer)
		return false
	}
	if reply.item != nil {
		g.answered(reply.item)
	}
	if dropping != nil {
		g.swallowed(dropping)
		if dropping.spec.Reset {
			h.in, h.inBytes, h.closing = nil, 0, true
		}
		return h.closing
	}
	if h.farGone {
		return false
	}
	if it := g.keep(h.conn, reply.command, true); it != nil {
		h.emit(c.Data[from:pos:pos], c.Timestamp)
		h.hold(it, c, pos, end)
		return true
	}
	return false
}
