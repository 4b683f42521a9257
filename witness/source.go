package witness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"lockstress/internal/clock"
	"lockstress/internal/resp"
)

// source is a connection that delivers keyspace events and lines of MONITOR.
type source struct {
	conn net.Conn
	r    *bufio.Reader
	stop func() bool
}

func (c *source) close() {
	if c.stop != nil {
		c.stop()
	}
	c.conn.Close()
}

// settings that a server needs to be watched: events of every kind, and no limit on
// what may wait for a slow reader.
var settings = map[string]string{
	"notify-keyspace-events":     "KEA",
	"client-output-buffer-limit": "pubsub 0 0 0",
}

// connect makes the server ready and opens a source on it.
func (w *Witness) connect(ctx context.Context) (*source, error) {
	if w.before == nil {
		before := map[string]string{}
		for name := range settings {
			now, err := w.side.ConfigGet(ctx, name).Result()
			if err != nil {
				return nil, fmt.Errorf("reading the setting %s: %w", name, err)
			}
			before[name] = now[name]
		}
		w.before = before
	}
	for name, value := range settings {
		if err := w.side.ConfigSet(ctx, name, value).Err(); err != nil {
			return nil, fmt.Errorf("setting %s to %q: %w", name, value, err)
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.addr)
	if err != nil {
		return nil, err
	}
	c := &source{conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err = c.greet("__keyspace@0__:*" + escape(w.o.Prefix) + "*")
	if !stop() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// escape makes a pattern that matches the text and nothing else.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}

// greet asks for protocol 3, which alone can mix subscriptions with anything else.
func (c *source) greet(pattern string) error {
	for _, args := range [][]string{{"HELLO", "3"}, {"PSUBSCRIBE", pattern}, {"MONITOR"}} {
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
		if _, err := c.conn.Write([]byte(b.String())); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		for {
			v, err := resp.Read(c.r)
			if err == nil {
				err = v.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			// Events may come already; the snapshot will make up for them.
			if v.Kind != '>' || args[0] == "PSUBSCRIBE" && len(v.Elems) > 0 && v.Elems[0].Str == "psubscribe" {
				break
			}
		}
	}
	return nil
}

// read follows one connection to its end, and returns why it ended. It calls ready
// once it has come to the snapshot, and says whether it did.
func (w *Witness) read(ctx context.Context, c *source, ready func()) (begun bool, err error) {
	defer c.close()
	c.stop = context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })

	mark := nonce()
	taken := make(chan snapshot, 1)
	go func() {
		limit, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		snap := take(limit, w.side, mark, "*"+escape(w.o.Prefix)+"*", w.o.Owner)
		taken <- snap
		if snap.err != nil { // then there may be no line to wait for
			c.conn.SetDeadline(time.Unix(1, 0))
		}
	}()

	for {
		v, err := resp.Read(c.r)
		if err != nil {
			select {
			case snap := <-taken:
				if snap.err != nil {
					return begun, snap.err
				}
			default:
			}
			return begun, err
		}
		at := clock.Now()
		switch {
		case v.Kind == '>' && len(v.Elems) == 4 && v.Elems[0].Str == "pmessage":
			_, key, _ := strings.Cut(v.Elems[2].Str, ":")
			w.tracker.push(key, v.Elems[3].Str, at)
		case v.Kind == '+':
			l, err := parseLine(v.Str)
			if err != nil {
				return begun, err
			}
			switch {
			case len(l.args) == 2 && strings.EqualFold(l.args[0], "ECHO") && strings.HasPrefix(l.args[1], "lockstress-"):
				w.tracker.line(l, at)
				if begun { // else what came before it is in the snapshot, yet to come
					w.reach(l.args[1])
				}
			case begun && len(l.args) == 5 && l.args[3] == mark:
				w.tracker.line(l, at)
				w.tracker.skip() // the snapshot once more, its answer having been lost
			case len(l.args) == 5 && l.args[3] == mark:
				w.tracker.line(l, at)
				snap := <-taken
				if snap.err != nil {
					return begun, snap.err
				}
				w.tracker.begin(snap, l, at)
				begun = true
				w.retryMarks()
				ready()
			default:
				w.tracker.line(l, at)
			}
		}
	}
}

// restore puts the settings back, unless the server is gone, or does not answer.
func (w *Witness) restore() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for name, value := range w.before {
		if w.side.ConfigSet(ctx, name, value).Err() != nil {
			return
		}
	}
}
