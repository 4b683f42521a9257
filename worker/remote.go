package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"

	"lockstress/internal/proc"
)

// Remote is a worker process as the coordinator holds it.
type Remote struct {
	*proc.Process
	Config Config

	stdin  io.Writer
	stderr *tail
	mu     sync.Mutex
	stops  map[int]chan Stop // per client; closed when the worker is gone
	fatal  error
}

// ErrGone is wrapped when a worker died, or could not go on.
var ErrGone = errors.New("the worker is gone")

// Start starts a worker in group and waits until it is ready for orders. command is
// the command line that runs [Run].
func Start(ctx context.Context, group *proc.Group, command []string, config Config) (*Remote, error) {
	r := &Remote{Config: config, stderr: &tail{}, stops: map[int]chan Stop{}}
	for _, slot := range config.Clients {
		// A client says one thing at a time and then waits, or is done.
		r.stops[slot] = make(chan Stop, 4)
	}
	name := fmt.Sprintf("worker %d", config.Worker)
	cmd := exec.Command(command[0], command[1:]...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, r.stderr
	r.stdin = stdin
	if r.Process, err = group.Start(name, cmd); err != nil {
		return nil, err
	}
	go func() {
		<-r.Done()
		in.Close()
	}()
	ready := make(chan struct{})
	go r.listen(out, ready)
	if err := r.send(config); err != nil {
		return nil, err
	}
	select {
	case <-ready:
		return r, nil
	case <-r.Done():
		return nil, r.gone()
	case <-ctx.Done():
		r.Kill()
		return nil, fmt.Errorf("waiting for %s to be ready: %w", name, context.Cause(ctx))
	}
}

func (r *Remote) listen(out io.Reader, ready chan struct{}) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var s Stop
		switch err := json.Unmarshal(lines.Bytes(), &s); {
		case err != nil:
			r.fail(fmt.Errorf("it said %q: %w", lines.Text(), err))
		case s.Fatal != "":
			r.fail(errors.New(s.Fatal))
		case s.Ready:
			close(ready)
		default:
			if c, ok := r.stops[s.Client]; ok {
				c <- s
			}
		}
	}
	for _, c := range r.stops {
		close(c)
	}
}

// fail remembers the first reason and ends the worker: a harness that lost track of
// a client must not go on.
func (r *Remote) fail(err error) {
	r.mu.Lock()
	if r.fatal == nil {
		r.fatal = err
	}
	r.mu.Unlock()
	r.Kill()
}

func (r *Remote) gone() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal != nil {
		return fmt.Errorf("%s: %w: %w", r.Name, ErrGone, r.fatal)
	}
	return fmt.Errorf("%s: %w (%v)%s", r.Name, ErrGone, r.Err(), r.stderr)
}

// Order gives a client something to do.
func (r *Remote) Order(client int, o Order) error {
	return r.send(message{Client: client, Order: &o})
}

// Go lets a client that stands at a sync point go on.
func (r *Remote) Go(client int) error { return r.send(message{Client: client}) }

// Free lets a client that stands at a sync point go on and stop no more.
func (r *Remote) Free(client int) error { return r.send(message{Client: client, Free: true}) }

// Next waits for the client's next [Stop].
func (r *Remote) Next(ctx context.Context, client int) (Stop, error) {
	select {
	case s, ok := <-r.stops[client]:
		if !ok {
			<-r.Done()
			return Stop{}, r.gone()
		}
		return s, nil
	case <-ctx.Done():
		return Stop{}, context.Cause(ctx)
	}
}

// Hosts says whether the client lives in this worker.
func (r *Remote) Hosts(client int) bool { return slices.Contains(r.Config.Clients, client) }

func (r *Remote) send(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = r.stdin.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("giving an order to %s: %w", r.Name, err)
	}
	return nil
}

// Quit ends a worker in good order: it closes its journal and goes.
func (r *Remote) Quit(grace time.Duration) error {
	if c, ok := r.stdin.(io.Closer); ok {
		c.Close()
	}
	select {
	case <-r.Done():
		return nil
	case <-time.After(grace):
		err := r.Kill()
		<-r.Done()
		return err
	}
}

// tail keeps the end of what a process complains about.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > 1<<12 {
		t.buf.Reset()
	}
	return t.buf.Write(b)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() == 0 {
		return ""
	}
	return ": " + string(bytes.TrimSpace(t.buf.Bytes()))
}
