package network

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"lockstress/faults/network/gate"
	"lockstress/internal/proc"
)

// ErrNoHold says that the proxy is a stock Toxiproxy, which can neither hold commands
// nor drop replies.
var ErrNoHold = errors.New("a stock Toxiproxy cannot hold commands or drop replies; use the proxy that is built in")

// Proxy is a running Toxiproxy server. Its methods may be called concurrently.
type Proxy struct {
	addr   string
	client *toxiproxy.Client
	http   *http.Client
	gates  bool // it carries package gate
	stdin  io.Closer
	proc   *proc.Process // nil: not started by us

	mu    sync.Mutex
	ports map[string]bool // addresses of the links, cut ones included
}

// Start runs command, whose body is [Serve] with its own standard input and output, in
// group, and connects to it. The process ends with the group, or with [Proxy.Close].
func Start(ctx context.Context, group *proc.Group, command ...string) (*Proxy, error) {
	if len(command) == 0 {
		return nil, errors.New("starting the proxy: no command given")
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	process, err := group.Start("the proxy", cmd)
	if err != nil {
		return nil, err
	}
	type announcement struct {
		line string
		err  error
	}
	announced := make(chan announcement, 1)
	go func() {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		announced <- announcement{strings.TrimSpace(line), err}
	}()
	var a announcement
	select {
	case a = <-announced:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	var p *Proxy
	if a.err == nil {
		p, a.err = Connect(ctx, a.line)
	}
	if a.err != nil {
		process.Kill()
		return nil, fmt.Errorf("starting the proxy with %q: it did not announce an address that answers: %w",
			strings.Join(command, " "), a.err)
	}
	p.stdin, p.proc = stdin, process
	return p, nil
}

// Connect uses the Toxiproxy server whose HTTP interface is at addr (host:port). With a
// stock one, holds and drops are not to be had: they answer [ErrNoHold].
func Connect(ctx context.Context, addr string) (*Proxy, error) {
	p := &Proxy{
		addr:   addr,
		client: toxiproxy.NewClient(addr),
		http:   &http.Client{Transport: &http.Transport{}},
		ports:  map[string]bool{},
	}
	var version struct{ Version string }
	if err := p.request(ctx, http.MethodGet, "/version", nil, &version); err != nil {
		return nil, fmt.Errorf("connecting to Toxiproxy at %s: %w", addr, err)
	}
	var gates gate.Version
	if err := p.request(ctx, http.MethodGet, gate.Prefix, nil, &gates); err == nil {
		p.gates = gates.Gates == 1
	} else if ctx.Err() != nil {
		return nil, fmt.Errorf("connecting to Toxiproxy at %s: %w", addr, err)
	}
	return p, nil
}

// Addr is the address of the HTTP interface.
func (p *Proxy) Addr() string { return p.addr }

// CanHold says whether [Link.Hold] and [Link.DropReply] are to be had.
func (p *Proxy) CanHold() bool { return p.gates }

// Close ends the process if [Start] started it, and all its links with it.
func (p *Proxy) Close() error {
	p.http.CloseIdleConnections()
	if p.proc == nil {
		return nil
	}
	p.stdin.Close()
	select {
	case <-p.proc.Done():
		return nil
	case <-time.After(5 * time.Second):
	}
	err := p.proc.Kill()
	<-p.proc.Done()
	return err
}

// request sends in, if any, as JSON and decodes the answer into out.
func (p *Proxy) request(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.addr+path, body)
	if err != nil {
		return err
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		var failure gate.Failure
		if json.NewDecoder(answer.Body).Decode(&failure) != nil || failure.Error == "" {
			failure.Error = answer.Status
		}
		return errors.New(failure.Error)
	}
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: the answer is not what was expected: %w", method, path, err)
	}
	return nil
}
