package network_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	toxiclient "github.com/Shopify/toxiproxy/v2/client"
	"github.com/rs/zerolog"

	"lockstress/faults/network"
	"lockstress/faults/network/gate"
	"lockstress/internal/proc"
	"lockstress/internal/resp"
)

func ended(c *client) error {
	_, err := io.ReadAll(c)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		return errors.New("the connection is still open")
	}
	return nil
}

func TestCutAndHealKeepThePort(t *testing.T) {
	link := newLink(t)
	addr := link.Addr()
	for range 3 {
		c := dial(t, addr)
		if v := c.do("PING"); v.Str != "PONG" {
			t.Fatal(v)
		}
		ok(t, link.Cut())
		ok(t, ended(c))
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Fatal("a link that is cut accepts connections")
		}
		ok(t, link.Heal())
		if link.Addr() != addr {
			t.Fatalf("moved from %s to %s", addr, link.Addr())
		}
	}
	if v := dial(t, addr).do("PING"); v.Str != "PONG" {
		t.Fatal(v)
	}
}

func TestRepoint(t *testing.T) {
	link := newLink(t)
	other := newRedis(t)
	dial(t, redisAddr(t)).do("SET", "which", "first")
	dial(t, other).do("SET", "which", "second")
	c := dial(t, link.Addr())
	if v := c.do("GET", "which"); v.Str != "first" {
		t.Fatal(v)
	}
	ok(t, link.Repoint(other))
	ok(t, ended(c))
	if v := dial(t, link.Addr()).do("GET", "which"); v.Str != "second" {
		t.Fatal(v)
	}
	ok(t, link.Cut())
	ok(t, link.Repoint(redisAddr(t)))
	ok(t, link.Heal())
	// The gate has moved along.
	h := hold(t, link, network.HoldSpec{Commands: []string{"GET"}})
	c = dial(t, link.Addr())
	c.write(wire("GET", "which"))
	ok(t, h.Wait(soon(t), 1))
	ok(t, h.Release(soon(t)))
	c.want("first")
}

func TestBlackhole(t *testing.T) {
	link := newLink(t)
	direct := dial(t, redisAddr(t))
	c := dial(t, link.Addr())
	c.do("PING")
	ok(t, link.Blackhole())
	late := dial(t, link.Addr()) // still accepted
	// Both commands have come as far as the gate, which is before the hole.
	h := hold(t, link, network.HoldSpec{Commands: []string{"INCR"}})
	c.write(wire("INCR", "vanished"))
	late.write(wire("INCR", "vanished"))
	ok(t, h.Wait(soon(t), 2))
	ok(t, h.Release(soon(t)))
	ok(t, link.Heal())
	for _, c := range []*client{c, late} {
		if rest, _ := io.ReadAll(c); len(rest) > 0 {
			t.Errorf("an answer came through: %q", rest)
		}
	}
	if v := direct.do("GET", "vanished"); !v.Null() {
		t.Errorf("a command came through: %v", v)
	}
	if v := dial(t, link.Addr()).do("PING"); v.Str != "PONG" {
		t.Error(v)
	}
}

func TestLatency(t *testing.T) {
	link := newLink(t)
	c := dial(t, link.Addr())
	c.do("PING")
	ok(t, link.Latency(20*time.Millisecond, 0))
	begin := time.Now()
	c.do("PING")
	if d := time.Since(begin); d < 40*time.Millisecond {
		t.Errorf("a round trip took %v, less than 2 × 20 ms", d)
	}
	ok(t, link.Latency(0, 0))
	ok(t, link.Bandwidth(100_000))
	ok(t, link.Bandwidth(0))
	if v := c.do("PING"); v.Str != "PONG" {
		t.Error(v)
	}
	if err := link.Latency(time.Microsecond, 0); err == nil {
		t.Error("a microsecond is less than Toxiproxy can do")
	}
}

// Toxics come, change and go, holds are armed and released, and of 20,000 pipelined
// commands and more on each connection no byte is lost or out of place.
//
// Toxiproxy's own handling of its toxics is racy, which the race detector would blame on
// this test: so the proxy runs in a process of its own, whose race reports are searched
// for our package.
func TestInterruptLosesNothing(t *testing.T) {
	const clients, least, rounds = 2, 20_000, 4
	reports := t.TempDir()
	t.Setenv("GORACE", "atexit_sleep_ms=0 exitcode=0 log_path="+filepath.Join(reports, "race"))
	proxy := startProxy(t)
	link, err := proxy.Link("busy", emptyRedis(t))
	ok(t, err)
	remote, err := toxiclient.NewClient(proxy.Addr()).Proxy("busy")
	ok(t, err)

	var traffic sync.WaitGroup
	enough := make(chan struct{})
	for i := range clients {
		c := dial(t, link.Addr())
		c.SetDeadline(time.Now().Add(60 * time.Second))
		key := fmt.Sprint("busy", i)
		window, dead := make(chan struct{}, 8), make(chan struct{}) // batches on their way
		traffic.Go(func() {
			batch := strings.Repeat(wire("INCR", key), 500)
			for sent, more := 0, true; more || sent < least; sent += 500 {
				select {
				case window <- struct{}{}:
				case <-dead:
					return
				}
				if _, err := io.WriteString(c, batch); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-enough:
					more = false
				default:
				}
			}
			io.WriteString(c, wire("ECHO", "end"))
		})
		traffic.Go(func() {
			defer close(dead)
			for i := 1; ; i++ {
				v, err := resp.Read(c.r)
				if err != nil || (v.Str != fmt.Sprint(i) && (v.Str != "end" || i <= least)) {
					t.Errorf("reply %d is %v, %v", i, v, err)
					c.Close()
					return
				}
				if v.Str == "end" {
					return
				}
				if i%500 == 0 {
					<-window
				}
			}
		})
	}
	for round := range rounds {
		for _, side := range []string{gate.Commands, gate.Replies} {
			_, err := remote.UpdateToxic(gate.ToxicType+"_"+side, 1, nil)
			ok(t, err)
		}
		ok(t, link.Latency(time.Millisecond, 0))
		ok(t, link.Latency(0, 0))
		h := hold(t, link, network.HoldSpec{Commands: []string{"INCR"}, Reply: round%2 == 0})
		ok(t, h.Wait(soon(t), clients))
		_, err := remote.UpdateToxic(gate.ToxicType+"_"+gate.Replies, 1, nil) // while it holds
		ok(t, err)
		_, err = h.Next(soon(t), 0)
		ok(t, err)
		ok(t, h.Release(soon(t)))
	}
	close(enough)
	traffic.Wait()
	ok(t, proxy.Close())
	logs, err := filepath.Glob(filepath.Join(reports, "*"))
	ok(t, err)
	for _, log := range logs {
		text, err := os.ReadFile(log)
		ok(t, err)
		for _, report := range strings.Split(string(text), "WARNING: DATA RACE") {
			// The stacks of creation name whoever started the goroutine; the accesses come first.
			accesses, _, _ := strings.Cut(report, "\nGoroutine ")
			if strings.Contains(accesses, "lockstress/faults/network/gate") {
				t.Errorf("a race in the gate: %s", report)
			}
		}
	}
}

func startProxy(t *testing.T) *network.Proxy {
	t.Helper()
	self, err := os.Executable()
	ok(t, err)
	t.Setenv(beProxy, "1")
	group, err := proc.NewGroup()
	ok(t, err)
	t.Cleanup(func() { group.Close() })
	p, err := network.Start(soon(t), group, self)
	ok(t, err)
	return p
}

// Removing the gate itself while it holds something lets it go.
func TestGateRemovedWhileHeld(t *testing.T) {
	proxy := newProxy(t)
	link, err := proxy.Link("removed", redisAddr(t))
	ok(t, err)
	c := dial(t, link.Addr())
	h := hold(t, link, network.HoldSpec{Commands: []string{"ECHO"}})
	c.write(wire("ECHO", "1") + wire("ECHO", megabyte))
	ok(t, h.Wait(soon(t), 1))
	ok(t, toxiclient.NewClient(proxy.Addr()).ResetState())
	c.want("1", megabyte)
}

func stock(t testing.TB) *network.Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	http := httptest.NewServer(server.Routes())
	t.Cleanup(func() {
		server.Collection.Clear()
		http.Close()
	})
	p, err := network.Connect(soon(t), http.Listener.Addr().String())
	ok(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func TestStockToxiproxy(t *testing.T) {
	p := stock(t)
	link, err := p.Link("stock", redisAddr(t))
	ok(t, err)
	if v := dial(t, link.Addr()).do("PING"); v.Str != "PONG" {
		t.Error(v)
	}
	if _, err := link.Hold(soon(t), network.HoldSpec{Commands: []string{"DEL"}}); !errors.Is(err, network.ErrNoHold) {
		t.Errorf("hold: %v", err)
	}
	if _, err := link.DropReply(soon(t), network.DropSpec{Commands: []string{"DEL"}}); !errors.Is(err, network.ErrNoHold) {
		t.Errorf("drop: %v", err)
	}
	ok(t, link.Cut())
	ok(t, link.Heal())
	if p.CanHold() {
		t.Error("a stock Toxiproxy cannot hold")
	}
	ok(t, link.Close())
}

func TestLinkNames(t *testing.T) {
	p := newProxy(t)
	first, err := p.Link("a", "127.0.0.1:1")
	ok(t, err)
	if _, err := p.Link("a", "127.0.0.1:1"); err == nil {
		t.Error("two links of one name")
	}
	if _, err := p.Link("a/b", "127.0.0.1:1"); err == nil {
		t.Error("a name with a slash")
	}
	ok(t, first.Close())
	again, err := p.Link("a", "127.0.0.1:1")
	ok(t, err)
	// Nobody listens upstream: connections end.
	c := dial(t, again.Addr())
	ok(t, ended(c))
	if _, err := again.Hold(soon(t), network.HoldSpec{}); err == nil {
		t.Error("a hold of nothing")
	}
	if err := again.Cut(); err != nil {
		t.Error(err)
	}
}

func TestStartRunsAProcess(t *testing.T) {
	p := startProxy(t)
	link, err := p.Link("process", redisAddr(t))
	ok(t, err)
	h := hold(t, link, network.HoldSpec{Commands: []string{"PING"}})
	c := dial(t, link.Addr())
	c.write(wire("PING"))
	ok(t, h.Wait(soon(t), 1))
	ok(t, h.Release(soon(t)))
	c.want("PONG")
	ok(t, p.Close()) // the end of its standard input
	ok(t, ended(c))
	if _, err := network.Connect(soon(t), p.Addr()); err == nil {
		t.Error("the process is still there")
	}
	group, err := proc.NewGroup()
	ok(t, err)
	t.Cleanup(func() { group.Close() })
	if _, err := network.Start(soon(t), group, "/bin/true"); err == nil {
		t.Error("a command that announces nothing")
	}
}

func TestServeEndsWithItsInput(t *testing.T) {
	in, closeIn := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- network.Serve(soon(t), io.Discard, in, nil) }()
	closeIn.Close()
	ok(t, <-served)
	if err := network.Serve(soon(t), failingWriter{}, nil, nil); err == nil {
		t.Error("an address that cannot be announced is of no use")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }
