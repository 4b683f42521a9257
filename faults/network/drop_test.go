package network_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"lockstress/faults/network"
	"lockstress/internal/resp"
)

// The client sees an error, the server has executed the command.
func TestDropReply(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	for _, reset := range []bool{true, false} {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("reset %v, RESP%d", reset, protocol), func(t *testing.T) {
				direct.t = t
				key := t.Name()
				r := goredis.NewClient(&goredis.Options{Addr: link.Addr(), MaxRetries: -1, Protocol: protocol,
					ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: true})
				defer r.Close()
				ok(t, r.Set(soon(t), key, "before", 0).Err()) // a connection is open
				d, err := link.DropReply(soon(t), network.DropSpec{Commands: []string{"set"}, Count: 1, Reset: reset})
				ok(t, err)
				ctx, cancel := context.WithCancel(soon(t))
				defer cancel()
				if !reset {
					// Nothing ever comes: the client's patience ends at the swallowing.
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, 150*time.Millisecond)
					defer stop()
				}
				if err := r.Set(ctx, key, "after", 0).Err(); err == nil {
					t.Error("the client got an answer")
				}
				ok(t, d.Wait(soon(t), 1))
				if v := direct.do("GET", key); v.Str != "after" {
					t.Errorf("the server has %q", v.Str)
				}
				ok(t, r.Set(soon(t), key, "later", 0).Err()) // Count is used up
				if n, err := d.Dropped(soon(t)); n != 1 || err != nil {
					t.Errorf("%d dropped, %v", n, err)
				}
				ok(t, d.Disarm(soon(t)))
				if err := d.Wait(soon(t), 2); err == nil {
					t.Error("waiting on a drop that is disarmed must fail")
				}
			})
		}
	}
}

// What a client hears through the gate with every reply to ECHO swallowed is what it
// hears directly when it sends no ECHO, whatever else it sends and gets.
func TestDropMatchesEveryReply(t *testing.T) {
	link := newLink(t)
	d, err := link.DropReply(soon(t), network.DropSpec{Commands: []string{"ECHO"}})
	ok(t, err)
	fragments := map[string]string{
		"plain":         wire("PING") + wire("SET", "f", "v") + wire("GET", "f"),
		"lists":         wire("DEL", "l") + wire("RPUSH", "l", "message", "subscribe", "3") + wire("LRANGE", "l", "0", "-1"),
		"nested":        wire("EVAL", "return {1,{2,{}},'x',false}", "0") + wire("KEYS", "none*"),
		"error":         wire("NOSUCH") + wire("GET") + wire("SUBSCRIBE"),
		"big":           wire("SET", "big", megabyte[:100_000]) + wire("GET", "big"),
		"inline":        "PING\r\n\r\nSET f 'inline'\r\nGET f\n",
		"empty":         "*0\r\n\r\n*-1\r\n",
		"multi":         wire("MULTI") + wire("SET", "f", "1") + wire("GET", "f") + wire("EXEC"),
		"reset":         wire("RESET"),
		"hello2":        wire("HELLO", "2"),
		"hello3":        wire("HELLO", "3"),
		"hello4":        wire("HELLO", "4"),
		"auth":          wire("AUTH", "nobody", "x"),
		"subscribe3":    wire("HELLO", "3") + wire("SUBSCRIBE", "c1", "c2", "c1") + wire("PSUBSCRIBE", "p*") + wire("PUBLISH", "c1", "hi") + wire("PUBLISH", "p", "ho") + wire("UNSUBSCRIBE") + wire("UNSUBSCRIBE") + wire("PUNSUBSCRIBE"),
		"stay":          wire("HELLO", "3") + wire("SUBSCRIBE", "c3") + wire("PUBLISH", "c3", "hi"),
		"subscribe2":    wire("RESET") + wire("SUBSCRIBE", "c1", "c2") + wire("PSUBSCRIBE", "q*", "r*") + wire("UNSUBSCRIBE", "c1") + wire("PING") + wire("UNSUBSCRIBE") + wire("UNSUBSCRIBE") + wire("SSUBSCRIBE", "s") + wire("SUNSUBSCRIBE") + wire("PUNSUBSCRIBE", "q*") + wire("PUNSUBSCRIBE"),
		"invalidations": wire("HELLO", "3") + wire("CLIENT", "TRACKING", "ON") + wire("GET", "f") + wire("SET", "f", "3") + wire("CLIENT", "TRACKING", "OFF"),
	}
	var names []string
	for name := range fragments {
		names = append(names, name)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	control := dial(t, redisAddr(t))
	echoes := 0
	for round := range 40 {
		var script []string
		for range 1 + random.IntN(8) {
			script = append(script, names[random.IntN(len(names))])
		}
		hear := func(addr string, disturb bool) []resp.Value {
			c := dial(t, addr)
			var stream strings.Builder
			control.do("DEL", "f", "big", "l")
			for _, name := range script {
				stream.WriteString(fragments[name])
				if disturb {
					stream.WriteString(wire("ECHO", "x"+name) + "echo y\r\n")
					echoes += 2
				}
			}
			stream.WriteString(wire("PING", "the end"))
			text := stream.String()
			go func() {
				for len(text) > 0 {
					n := min(len(text), 1+rand.IntN(50_000))
					if _, err := c.Write([]byte(text[:n])); err != nil {
						return
					}
					text = text[n:]
				}
			}()
			var heard []resp.Value
			for {
				v := c.read()
				if v.Kind == '%' || (v.Kind == '*' && len(v.Elems) > 6) { // HELLO: the connection's id differs
					v.Elems = nil
				}
				heard = append(heard, v)
				// A subscribed client of RESP2 has its PING answered by an array.
				if v.Str == "the end" || (len(v.Elems) == 2 && v.Elems[1].Str == "the end") {
					c.do("RESET") // no subscription is left for the next to count
					return heard
				}
			}
		}
		direct := hear(redisAddr(t), false)
		gated := hear(link.Addr(), true)
		for i := range max(len(direct), len(gated)) {
			if i >= len(direct) || i >= len(gated) || !reflect.DeepEqual(direct[i], gated[i]) {
				t.Fatalf("seed %d, round %d, %v, from reply %d:\ndirect %.600s\ngated  %.600s", seed, round, script, i,
					fmt.Sprintf("%q", direct[min(i, len(direct)):]), fmt.Sprintf("%q", gated[min(i, len(gated)):]))
			}
		}
	}
	ok(t, d.Wait(soon(t), echoes))
}

// With CLIENT REPLY nobody can tell which command a reply belongs to, so none is touched.
func TestClientReplyTurnsTheGateBlind(t *testing.T) {
	link := newLink(t)
	d, err := link.DropReply(soon(t), network.DropSpec{Commands: []string{"ECHO"}})
	ok(t, err)
	c := dial(t, link.Addr())
	c.write(wire("ECHO", "0") + wire("PING"))
	c.want("PONG")
	c.write(wire("CLIENT", "REPLY", "SKIP") + wire("ECHO", "1") + wire("ECHO", "2") + wire("MULTI") +
		wire("CLIENT", "REPLY", "OFF") + wire("ECHO", "3") + wire("DISCARD") + wire("ECHO", "4"))
	c.want("2", "OK", "QUEUED", "QUEUED", "OK", "4")
	if n, err := d.Dropped(soon(t)); n != 1 || err != nil {
		t.Errorf("%d dropped, %v", n, err)
	}
}

// Messages are not replies, even when they arrive between a command and its reply.
func TestMessagesAreNotReplies(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	c := dial(t, link.Addr())
	c.do("HELLO", "3")
	c.do("SUBSCRIBE", "channel")
	h := hold(t, link, network.HoldSpec{Commands: []string{"BLPOP"}, Reply: true})
	d, err := link.DropReply(soon(t), network.DropSpec{Commands: []string{"GET"}})
	ok(t, err)
	c.write(wire("GET", "none") + wire("BLPOP", "queue", "0"))
	ok(t, d.Wait(soon(t), 1))
	direct.do("PUBLISH", "channel", "hi")
	if v := c.read(); v.Kind != '>' || v.Elems[2].Str != "hi" {
		t.Fatalf("got %v, want the message", v)
	}
	direct.do("RPUSH", "queue", "job")
	ok(t, h.Wait(soon(t), 1))
	direct.do("PUBLISH", "channel", "behind")
	ok(t, h.Release(soon(t)))
	if v := c.read(); v.Kind != '*' || v.Elems[1].Str != "job" {
		t.Fatalf("got %v, want the job", v)
	}
	if v := c.read(); v.Kind != '>' || v.Elems[2].Str != "behind" {
		t.Fatalf("got %v, want the second message", v)
	}
}
