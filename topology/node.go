package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockstress/internal/proc"
)

// ErrNotOurs: the server was not started by us, so it is not ours to kill, restart,
// pause, reconfigure or flush.
var ErrNotOurs = errors.New("the server is not ours")

// Node is one Redis server. Its address stays the same for life, restarts included.
type Node struct {
	Name string // "n1"
	Addr string // host:port, direct

	group  *proc.Group // nil: not ours
	engine engine
	dir    string

	mu         sync.Mutex
	server     *server // nil: never started
	paused     bool
	persistent bool
	announce   string // address told to Sentinels and replicas, "" for Addr
	follow     string // address of the primary that it follows, "" if it follows none
	version    string
	client     *redis.Client
}

func newNode(group *proc.Group, engine engine, name string) *Node {
	return &Node{Name: name, group: group, engine: engine}
}

// RestartOptions says how a server comes back.
type RestartOptions struct {
	// Persistent: with an append-only file, synced before every reply. It finds
	// what it had if it was persistent before; otherwise it comes back empty.
	Persistent bool
}

// start gives the node a folder and a port and runs it for the first time.
func (n *Node) start(ctx context.Context, persistent bool) error {
	dir, err := n.group.TempDir("lockstress-" + n.Name + "-")
	if err != nil {
		return fmt.Errorf("starting %s: %w", n.Name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dir = dir
	for {
		port, err := freePort()
		if err != nil {
			return fmt.Errorf("starting %s: %w", n.Name, err)
		}
		n.Addr = net.JoinHostPort(host, strconv.Itoa(port))
		err = n.run(ctx, persistent)
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// run starts the process on the node's address. The caller holds mu.
func (n *Node) run(ctx context.Context, persistent bool) error {
	_, port, _ := net.SplitHostPort(n.Addr)
	args := []string{
		// No configuration file is named, so none of the system's is read.
		"--port", port, "--bind", host, "--daemonize", "no", "--dir", n.dir,
		"--save", "", "--logfile", "",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
	}
	if persistent {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	} else {
		args = append(args, "--appendonly", "no")
		// What an earlier, persistent life left must not come back in a later one.
		if err := empty(n.dir); err != nil {
			return fmt.Errorf("emptying the folder of %s: %w", n.Name, err)
		}
	}
	if n.announce != "" {
		h, p, _ := net.SplitHostPort(n.announce)
		args = append(args, "--replica-announce-ip", h, "--replica-announce-port", p)
	}
	if n.follow != "" {
		h, p, _ := net.SplitHostPort(n.follow)
		args = append(args, "--replicaof", h, p)
	}
	s, err := n.engine.launch(ctx, n.Name, n.dir, "Ready to accept connections", args...)
	if err != nil {
		return err
	}
	n.server, n.paused, n.persistent = s, false, persistent
	if n.client == nil {
		n.client = dial(n.Addr)
	}
	if n.version == "" {
		info, err := n.client.InfoMap(ctx, "server").Result()
		if err != nil {
			return fmt.Errorf("asking %s (%s) for its version: %w%s", n.Name, n.Addr, err, n.engine.advice())
		}
		n.version = info["Server"]["redis_version"]
	}
	return nil
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// dial connects the coordinator to a server. An error speaks of exactly one attempt.
func dial(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              2 * time.Second,
		DisableIdentity:          true,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Client is the coordinator's own connection to the server, past all links. It does
// not retry. It survives restarts, and belongs to the node.
func (n *Node) Client() *redis.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.client
}

// Version of the server, as in "7.0.15".
func (n *Node) Version() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}

// Announced is the address by which Sentinels and replicas know the node.
func (n *Node) Announced() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.announce != "" {
		return n.announce
	}
	return n.Addr
}

// Pid is the process number of the server's present life, in a container that on
// Docker's machine; 0 if it is not ours.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		return 0
	}
	return n.server.Pid
}

// Ours says that the server was started by us: it may be killed, restarted, paused,
// reconfigured and flushed.
func (n *Node) Ours() bool { return n.group != nil }

// Alive says that the process of the server is there, be it paused. Of a server
// that is not ours nothing is known and true is returned.
func (n *Node) Alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive()
}

func (n *Node) alive() bool {
	if n.group == nil {
		return true
	}
	if n.server == nil {
		return false
	}
	select {
	case <-n.server.Done():
		return false
	default:
		return true
	}
}

// Kill ends the server with SIGKILL and returns once it is gone. To kill a dead one
// is no error.
func (n *Node) Kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.group == nil {
		return fmt.Errorf("killing %s (%s): %w", n.Name, n.Addr, ErrNotOurs)
	}
	if n.server == nil {
		return nil
	}
	return n.server.end()
}

// Restart kills the server if it lives and starts it again on the same address. It
// returns once the server answers. A replica follows the same primary as before, but
// need not be in sync yet: see [Topology.WaitSync].
func (n *Node) Restart(ctx context.Context, o RestartOptions) error {
	if n.group == nil {
		return fmt.Errorf("restarting %s (%s): %w", n.Name, n.Addr, ErrNotOurs)
	}
	ctx, cancel := context.WithTimeout(ctx, n.engine.timeout())
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server != nil {
		if err := n.server.end(); err != nil {
			return err
		}
	}
	if err := n.run(ctx, o.Persistent); err != nil {
		return fmt.Errorf("restarting %s on %s: %w", n.Name, n.Addr, err)
	}
	return nil
}

// Pause stops the server with SIGSTOP, or its container: its connections stay open and nothing answers.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP, true) }

// Resume lets a paused server go on.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT, false) }

func (n *Node) signal(sig syscall.Signal, paused bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		return fmt.Errorf("sending %v to %s (%s): %w", sig, n.Name, n.Addr, ErrNotOurs)
	}
	if err := n.server.Signal(sig); err != nil {
		return err
	}
	n.paused = paused
	return nil
}

// Log returns the last lines that the server wrote, for error messages.
func (n *Node) Log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		return ""
	}
	return n.server.log.String()
}

func (n *Node) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	if n.client != nil {
		errs = append(errs, n.client.Close())
	}
	if n.server != nil {
		errs = append(errs, n.server.end())
	}
	if n.dir != "" {
		errs = append(errs, n.group.RemoveDir(n.dir))
	}
	return errors.Join(errs...)
}
