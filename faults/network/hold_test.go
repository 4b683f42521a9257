package network_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockstress/faults/network"
)

var megabyte = strings.Repeat("0123456789abcde\n", 1<<16)

// However a DEL is dressed up, it is held, and what was sent before it is not.
func TestHoldSeesThroughDisguise(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	for _, test := range []struct {
		name   string
		before []string // pieces sent before the hold is armed
		after  []string // pieces sent after
		first  []string // answered before the hold
		rest   []string // answered after its release
	}{
		{"alone", nil, []string{wire("DEL", "k")}, nil, []string{"1"}},
		{"lower case", nil, []string{wire("del", "k")}, nil, []string{"1"}},
		{"inline", nil, []string{"del k\r\n"}, nil, []string{"1"}},
		{"inline without CR", nil, []string{"  DEL 'k'\n"}, nil, []string{"1"}},
		{"byte by byte", nil, strings.Split(wire("DEL", "k"), ""), nil, []string{"1"}},
		{"split within the name", nil, []string{"*2\r\n$3\r\nD", "EL\r\n$1\r\nk\r\n"}, nil, []string{"1"}},
		{"half of it before the hold", []string{"*2\r\n$3\r\nDEL\r\n$1"}, []string{"\r\nk\r\n"}, nil, []string{"1"}},
		{"in a pipeline", nil, []string{wire("ECHO", "a") + wire("DEL", "k") + wire("ECHO", "b")}, []string{"a"}, []string{"1", "b"}},
		{"behind empty requests", nil, []string{"\r\n*0\r\n" + wire("DEL", "k")}, nil, []string{"1"}},
		{"behind its own name as data", nil, []string{wire("ECHO", wire("DEL", "k")) + wire("DEL", "k")}, []string{wire("DEL", "k")}, []string{"1"}},
		{"behind a megabyte", nil, []string{wire("ECHO", megabyte) + wire("DEL", "k")}, []string{megabyte}, []string{"1"}},
		{"with a megabyte", nil, []string{wire("DEL", megabyte, "k")}, nil, []string{"1"}},
		{"behind MULTI", nil, []string{wire("MULTI") + wire("DEL", "k")}, []string{"OK"}, []string{"QUEUED"}},
		{"behind a handshake", []string{wire("HELLO", "2") + wire("CLIENT", "SETNAME", "x")}, []string{wire("DEL", "k")}, []string{"", "OK"}, []string{"1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			direct.t = t
			direct.do("SET", "k", "v")
			c := dial(t, link.Addr())
			for _, piece := range test.before {
				c.write(piece)
			}
			h := hold(t, link, network.HoldSpec{Commands: []string{"Del"}})
			for _, piece := range test.after {
				c.write(piece)
			}
			c.want(test.first...)
			ok(t, h.Wait(soon(t), 1))
			held, err := h.Held(soon(t))
			ok(t, err)
			if len(held) != 1 || held[0].Command != "DEL" || held[0].Reply || len(held[0].Args) == 0 {
				t.Fatalf("held: %+v", held)
			}
			if v := direct.do("GET", "k"); v.Str != "v" {
				t.Fatalf("the server has executed the held DEL: %v", v)
			}
			ok(t, h.Release(soon(t)))
			c.want(test.rest...)
			if err := h.Wait(soon(t), 1); err == nil {
				t.Error("waiting on a released hold must fail")
			}
		})
	}
}

// The reason for it all: the DEL of a lock's first holder is on its way while the key
// expires and another client takes the lock.
func TestHeldDelRemovesTheNextHoldersKey(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	a := dial(t, link.Addr())
	h := hold(t, link, network.HoldSpec{Commands: []string{"DEL"}})
	a.do("SET", "lock", "a", "NX", "PX", "30")
	a.write(wire("DEL", "lock"))
	ok(t, h.Wait(soon(t), 1))
	eventually(t, "the key expires", func() bool { return direct.do("SET", "lock", "b", "NX").Str == "OK" })
	held, err := h.Next(soon(t), 0)
	ok(t, err)
	if held.Command != "DEL" || held.Args[0] != "lock" {
		t.Errorf("let through: %+v", held)
	}
	a.want("1")
	if v := direct.do("GET", "lock"); !v.Null() {
		t.Errorf("b's lock is still there: %v", v)
	}
	ok(t, h.Release(soon(t)))
}

// Commands of several connections are executed in the order of the steps.
func TestStepsDecideTheOrder(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	for round, order := range []string{"abab", "baab", "bbaa", "aabb", "abba"} {
		key := fmt.Sprint("order", round)
		h := hold(t, link, network.HoldSpec{Commands: []string{"*"}})
		clients := map[byte]*client{}
		for _, who := range []byte("ab") {
			c := dial(t, link.Addr())
			clients[who] = c
			// Setting up is not held, nor does it hold up anything.
			c.do("HELLO", "3")
			c.write(wire("APPEND", key, string(who)) + wire("APPEND", key, string(who)))
		}
		for i := range len(order) {
			// Both are at the gate as long as both have something left to send.
			waiting := 1
			if strings.Contains(order[i:], "a") && strings.Contains(order[i:], "b") {
				waiting = 2
			}
			ok(t, h.Wait(soon(t), waiting))
			held, err := h.Held(soon(t))
			ok(t, err)
			conn := int64(2*round + 1 + strings.IndexByte("ab", order[i]))
			for _, it := range held {
				if it.Conn == conn {
					_, err := h.Step(soon(t), it.ID)
					ok(t, err)
				}
			}
		}
		for _, c := range clients {
			c.read()
			c.read()
		}
		ok(t, h.Release(soon(t)))
		if v := direct.do("GET", key); v.Str != order {
			t.Errorf("executed in the order %s, want %s", v.Str, order)
		}
	}
}

func TestHoldReply(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	direct.do("SET", "big", megabyte)
	c := dial(t, link.Addr())
	h := hold(t, link, network.HoldSpec{Commands: []string{"SET", "GET"}, Reply: true, Max: 2})
	c.write(wire("ECHO", "a") + wire("SET", "reply", "1") + wire("GET", "big") + wire("GET", "big") + wire("ECHO", "b"))
	c.want("a")
	ok(t, h.Wait(soon(t), 1))
	if v := direct.do("GET", "reply"); v.Str != "1" {
		t.Errorf("only the reply is held, but the server has %v", v)
	}
	held, err := h.Next(soon(t), 0)
	ok(t, err)
	if !held.Reply || held.Command != "SET" || held.Args[0] != "reply" {
		t.Errorf("held: %+v", held)
	}
	c.want("OK")
	ok(t, h.Wait(soon(t), 1))
	if _, err := h.Next(soon(t), held.ID); err == nil {
		t.Error("letting the same item through twice must fail")
	}
	_, err = h.Step(soon(t), 0)
	ok(t, err)
	c.want(megabyte, megabyte, "b") // the third is beyond Max
	ok(t, h.Release(soon(t)))
}

// A sub-command can be named, and "*" leaves the handshake alone.
func TestHoldNames(t *testing.T) {
	link := newLink(t)
	c := dial(t, link.Addr())
	h := hold(t, link, network.HoldSpec{Commands: []string{"script  load"}})
	c.do("SCRIPT", "EXISTS", "x")
	c.write(wire("SCRIPT", "LOAD", "return 1"))
	ok(t, h.Wait(soon(t), 1))
	all := hold(t, link, network.HoldSpec{Commands: []string{"*", "CLIENT"}})
	d := dial(t, link.Addr())
	d.do("HELLO", "3")
	d.do("SELECT", "1")
	d.write(wire("CLIENT", "ID"))
	ok(t, all.Wait(soon(t), 1))
	ok(t, h.Release(soon(t)))
	c.read()
	ok(t, all.Release(soon(t)))
	d.read()
}

// What a client sent before it died arrives when it is let through, and nothing of the
// connection is left over.
func TestClientDiesWhileHeld(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	c := dial(t, link.Addr())
	c.do("PING")
	c.Close()
	eventually(t, "an idle connection ends", func() bool { return !strings.Contains(gateGoroutines(), "half).pipe") })

	for _, reply := range []bool{false, true} {
		h := hold(t, link, network.HoldSpec{Commands: []string{"INCR"}, Reply: reply})
		c := dial(t, link.Addr())
		c.write(wire("INCR", "dead"))
		ok(t, h.Wait(soon(t), 1))
		c.Close()
		if reply {
			eventually(t, "a reply without a client is dropped", func() bool {
				held, err := h.Held(soon(t))
				return err == nil && len(held) == 0
			})
		} else {
			if v := direct.do("GET", "dead"); !v.Null() {
				t.Fatalf("executed already: %v", v)
			}
			_, err := h.Step(soon(t), 0)
			ok(t, err)
			if v := direct.do("GET", "dead"); v.Str != "1" {
				t.Errorf("a dead client's command has not arrived: %v", v)
			}
		}
		ok(t, h.Release(soon(t)))
		eventually(t, "everything is freed", func() bool { return !strings.Contains(gateGoroutines(), "toxiproxy/v2.(*ToxicLink)") })
	}
	if v := direct.do("GET", "dead"); v.Str != "2" {
		t.Errorf("counted %v, want 2", v)
	}
}

func gateGoroutines() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// A server that is gone, or a link that is cut, frees what was held for it.
func TestCutDropsWhatIsHeld(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	commands := hold(t, link, network.HoldSpec{Commands: []string{"INCR"}})
	replies := hold(t, link, network.HoldSpec{Commands: []string{"GET"}, Reply: true})
	a, b := dial(t, link.Addr()), dial(t, link.Addr())
	a.write(wire("INCR", "cut"))
	b.write(wire("GET", "cut"))
	ok(t, commands.Wait(soon(t), 1))
	ok(t, replies.Wait(soon(t), 1))
	ok(t, link.Cut())
	for _, h := range []*network.Hold{commands, replies} {
		eventually(t, "nothing is held", func() bool {
			held, err := h.Held(soon(t))
			return err == nil && len(held) == 0
		})
	}
	eventually(t, "everything is freed", func() bool { return !strings.Contains(gateGoroutines(), "half).pipe") })
	ok(t, link.Heal())
	ok(t, commands.Release(soon(t)))
	if v := direct.do("GET", "cut"); !v.Null() {
		t.Errorf("a command was executed on a link that was cut: %v", v)
	}
}

// A connection that is not RESP, or stops being it, passes untouched.
func TestOtherProtocolsPass(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	link, err := newProxy(t).Link("echo", echo.Addr().String())
	ok(t, err)
	hold(t, link, network.HoldSpec{Commands: []string{"*"}})
	text := "*1\r\n:1\r\n" + megabyte
	c := dial(t, link.Addr())
	go io.WriteString(c, text)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	ok(t, err)
	if string(got) != text {
		t.Error("the text came back changed")
	}
}

// A replica follows through a gate, and can be kept from acknowledging.
func TestReplicationThroughAGate(t *testing.T) {
	primary := newRedis(t)
	link, err := newProxy(t).Link("replication", primary)
	ok(t, err)
	host, port, _ := net.SplitHostPort(link.Addr())
	replica := dial(t, newRedis(t, "--replicaof", host, port))
	p := dial(t, primary)
	p.do("SET", "k", megabyte)
	if v := p.do("WAIT", "1", "8000"); v.Str != "1" {
		t.Fatalf("%v replicas have the value", v)
	}
	if v := replica.do("GET", "k"); v.Str != megabyte {
		t.Fatalf("the replica has %.100v", v)
	}
	h := hold(t, link, network.HoldSpec{Commands: []string{"REPLCONF"}})
	p.do("SET", "k", "2")
	if v := p.do("WAIT", "1", "50"); v.Str != "0" {
		t.Errorf("%v replicas acknowledged although that is held", v)
	}
	ok(t, h.Release(soon(t)))
	if v := p.do("WAIT", "1", "8000"); v.Str != "1" {
		t.Errorf("%v replicas acknowledged after the release", v)
	}
}

func TestMonitorThroughAGate(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	c := dial(t, link.Addr())
	d, err := link.DropReply(soon(t), network.DropSpec{Commands: []string{"GET"}})
	ok(t, err)
	// The GET's reply must not be taken for a line of MONITOR, nor the other way about.
	c.write(wire("GET", "x") + wire("MONITOR"))
	c.want("OK")
	ok(t, d.Wait(soon(t), 1))
	for i := range 3 {
		text := fmt.Sprint("monitored", i)
		direct.do("ECHO", text)
		eventually(t, "MONITOR tells of "+text, func() bool { return strings.Contains(c.read().Str, text) })
	}
}

func TestLinkClosesWhileHeld(t *testing.T) {
	link := newLink(t)
	h := hold(t, link, network.HoldSpec{Commands: []string{"*"}})
	c := dial(t, link.Addr())
	c.write(wire("PING"))
	ok(t, h.Wait(soon(t), 1))
	waited := make(chan error, 1)
	go func() { waited <- h.Wait(soon(t), 2) }()
	ok(t, link.Close())
	if err := <-waited; err == nil {
		t.Error("nobody can wait on a link that is closed")
	}
	if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection should have ended: %v", err)
	}
	eventually(t, "everything is freed", func() bool { return !strings.Contains(gateGoroutines(), "half).pipe") })
}

func BenchmarkPing(b *testing.B) {
	addr := redisAddr(b)
	gated, err := newProxy(b).Link("gated", addr)
	ok(b, err)
	plain, err := stock(b).Link("plain", addr)
	ok(b, err)
	for _, way := range []struct{ name, addr string }{{"direct", addr}, {"stock", plain.Addr()}, {"gate", gated.Addr()}} {
		b.Run(way.name, func(b *testing.B) {
			c := dial(b, way.addr)
			c.SetDeadline(time.Time{})
			ping := []byte(wire("PING"))
			for b.Loop() {
				if _, err := c.Write(ping); err != nil {
					b.Fatal(err)
				}
				c.read()
			}
		})
	}
}
