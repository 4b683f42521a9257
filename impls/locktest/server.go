// Package locktest gives the tests of locks real Redis servers and a look at what
// is sent to them.
package locktest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/internal/redistest"
)

// Server is a redis-server on a free port of loopback. It ends with the test, and
// with the test's process however that ends.
type Server struct {
	Addr string
	kill func()
}

// Start runs a server without persistence. Without redis-server the test is
// skipped, or fails where CI=true.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	redistest.Need(t)
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	// Somebody else may take the port between looking and starting.
	var last string
	for range 5 {
		server, log := start(t, bin, args)
		if server != nil {
			return server
		}
		last = log
	}
	t.Fatalf("redis-server did not start in five tries, last:\n%s", last)
	return nil
}

// A shell holds the pipe from the test's process and kills the server when it ends.
const guard = `"$@" & pid=$!; read -r _; kill -9 $pid; wait $pid`

func start(t testing.TB, bin string, args []string) (*Server, string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(addr)
	line := []string{
		"-c", guard, "guard", bin, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--notify-keyspace-events", "KEA", "--hz", "100",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
	}
	cmd := exec.Command("sh", append(line, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", bin, err)
	}
	kill := sync.OnceFunc(func() {
		stdin.Close()
		cmd.Wait()
	})
	var log strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			t.Cleanup(kill)
			go func() {
				for lines.Scan() { // or the pipe would fill up
				}
			}()
			return &Server{addr, kill}, ""
		}
		if strings.Contains(lines.Text(), "Failed listening") || strings.Contains(lines.Text(), "FATAL CONFIG") {
			break
		}
	}
	kill()
	return nil, log.String()
}

// Kill ends the server with SIGKILL and returns when it is gone.
func (s *Server) Kill() { s.kill() }

// Client returns a new connection as locks expect one: no retries, deadlines heeded.
func (s *Server) Client(t testing.TB) *redis.Client { return Dial(t, s.Addr) }

// Dial is Server.Client for any address.
func Dial(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// Silent listens, accepts and never answers.
func Silent(t testing.TB) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String()
}

// Env is an environment with short pauses between attempts.
func Env(ttl time.Duration, nodes ...redis.UniversalClient) lock.Env {
	return lock.Env{
		Nodes: nodes, TTL: ttl, RetryMin: time.Millisecond, RetryMax: 8 * time.Millisecond,
		Rand: rand.New(rand.NewPCG(1, 2)),
	}
}

// AwaitGone returns once the key does not exist any more, by expiry or otherwise.
func AwaitGone(t testing.TB, c *redis.Client, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sub := c.Subscribe(ctx, "__keyspace@0__:"+key)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := c.Exists(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if _, err := sub.ReceiveMessage(ctx); err != nil {
			t.Fatalf("waiting for %s to go: %v", key, err)
		}
	}
}
