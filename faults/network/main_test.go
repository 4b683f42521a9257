package network_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstress/faults/network"
	"lockstress/internal/proc"
	"lockstress/internal/resp"
)

const beProxy = "LOCKSTRESS_TEST_BE_PROXY"

func TestMain(m *testing.M) {
	if os.Getenv(beProxy) != "" {
		if err := network.Serve(context.Background(), os.Stdout, os.Stdin, nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if redis.group != nil {
		redis.group.Close()
	}
	os.Exit(code)
}

// redis is the server that most tests share, one after the other.
var redis struct {
	once  sync.Once
	group *proc.Group
	addr  string
	err   error
}

func redisAddr(t testing.TB) string {
	t.Helper()
	redis.once.Do(func() {
		if redis.group, redis.err = proc.NewGroup(); redis.err == nil {
			redis.addr, redis.err = startRedis(redis.group)
		}
	})
	skipWithout(t, redis.err)
	return redis.addr
}

func emptyRedis(t testing.TB) (addr string) {
	t.Helper()
	addr = redisAddr(t)
	dial(t, addr).do("FLUSHALL")
	return addr
}

func skipWithout(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("redis-server is needed: %v", err)
	}
	t.Skipf("redis-server is needed: %v", err)
}

// startRedis starts a server and waits for its answer. Whoever takes the port between
// finding and using it makes the server end, and another port is tried.
func startRedis(group *proc.Group, args ...string) (addr string, err error) {
	dir, err := group.TempDir("redis")
	if err != nil {
		return "", err
	}
	for range 5 {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
		addr = l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(addr)
		cmd := exec.Command("redis-server", append([]string{"--port", port, "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "no", "--dir", dir,
			"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}, args...)...)
		var p *proc.Process
		if p, err = group.Start("redis-server", cmd); err != nil {
			return "", err
		}
		for err = io.EOF; err != nil; {
			select {
			case <-p.Done():
				err = fmt.Errorf("redis-server at %s ended: %w", addr, p.Err())
			case <-time.After(5 * time.Millisecond):
				var c net.Conn
				if c, err = net.Dial("tcp", addr); err == nil {
					c.Close()
					return addr, nil
				}
				continue
			}
			break
		}
	}
	return "", err
}

func newRedis(t testing.TB, args ...string) string {
	t.Helper()
	group, err := proc.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Close() })
	addr, err := startRedis(group, args...)
	skipWithout(t, err)
	return addr
}

// newProxy serves within the test, so that the race detector sees the gate at work.
func newProxy(t testing.TB) *network.Proxy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- network.Serve(ctx, w, nil, nil) }()
	addr, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p, err := network.Connect(soon(t), strings.TrimSpace(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p
}

func newLink(t testing.TB) *network.Link {
	t.Helper()
	addr := emptyRedis(t)
	l, err := newProxy(t).Link("link", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// client speaks RESP, byte for byte as the test wants it.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(10 * time.Second))
	t.Cleanup(func() { c.Close() })
	return &client{t, c, bufio.NewReader(c)}
}

func wire(args ...string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

func (c *client) write(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read() resp.Value {
	c.t.Helper()
	v, err := resp.Read(c.r)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

func (c *client) do(args ...string) resp.Value {
	c.t.Helper()
	c.write(wire(args...))
	return c.read()
}

// want reads replies and compares their texts.
func (c *client) want(texts ...string) {
	c.t.Helper()
	for i, text := range texts {
		if v := c.read(); v.Str != text {
			c.t.Fatalf("reply %d is %.200v, want %.200q", i, v, text)
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls a condition that announces itself by no event.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(8 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// soon is a context for what must not take long.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func hold(t testing.TB, l *network.Link, spec network.HoldSpec) *network.Hold {
	t.Helper()
	h, err := l.Hold(soon(t), spec)
	ok(t, err)
	return h
}
