package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstress/internal/proc"
)

// ErrNoRedis: there is no redis-server on the PATH.
var ErrNoRedis = errors.New("no redis-server on the PATH: install it with `apt-get install redis-server` or `brew install redis`")

// errPortTaken: somebody else was faster.
var errPortTaken = errors.New("the port is taken")

// engine starts Redis servers: as processes, or in containers.
type engine interface {
	// launch starts redis-server with a folder of its own and waits until its log
	// says ready. errPortTaken is wrapped where that is the reason.
	launch(ctx context.Context, name, dir, ready string, args ...string) (*server, error)
	// timeout bounds a start.
	timeout() time.Duration
	// advice is for who cannot reach a server that is ready; "" for none.
	advice() string
}

// server is one running Redis.
type server struct {
	life
	Pid int
	log *logTail
}

// life of a process, or of a container in its place.
type life interface {
	Signal(syscall.Signal) error
	Kill() error           // to kill a dead one is no error
	Done() <-chan struct{} // closed once it has ended and nothing is left of it
	Err() error            // how it ended, after Done
}

// native is the engine for redis-server from the PATH.
type native struct{ group *proc.Group }

func (e native) launch(ctx context.Context, name, dir, ready string, args ...string) (*server, error) {
	return launch(ctx, e.group, name, dir, ready, args...)
}

func (native) timeout() time.Duration { return StartTimeout }
func (native) advice() string         { return "" }

// launch starts redis-server and waits until its log says ready.
func launch(ctx context.Context, group *proc.Group, name, dir, ready string, args ...string) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoRedis, err)
	}
	s := &server{log: newLogTail(ready)}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.WaitDelay = time.Second // a saving child may keep the pipe open
	p, err := group.Start(name, cmd)
	if err != nil {
		return nil, err
	}
	s.life, s.Pid = p, p.Pid
	return s.await(ctx, name, args)
}

// await returns once the log says ready. Otherwise nothing is left of the server.
func (s *server) await(ctx context.Context, name string, args []string) (*server, error) {
	select {
	case <-s.log.found:
		return s, nil
	case <-s.Done():
		log := s.log.String()
		if strings.Contains(log, "Address already in use") {
			return nil, fmt.Errorf("%s (%s): %w", name, strings.Join(args, " "), errPortTaken)
		}
		return nil, fmt.Errorf("%s ended while starting (%w): redis-server %s\n%s", name, orExited(s.Err()), strings.Join(args, " "), log)
	case <-ctx.Done():
		s.end()
		return nil, fmt.Errorf("%s did not become ready (%w): redis-server %s\n%s", name, context.Cause(ctx), strings.Join(args, " "), s.log)
	}
}

func orExited(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// end kills the process and waits until it is gone.
func (s *server) end() error {
	if err := s.Kill(); err != nil {
		return err
	}
	<-s.Done()
	return nil
}

// logTail keeps the last lines that a server wrote and tells when one of them says
// that it is ready.
type logTail struct {
	ready string
	found chan struct{} // closed once a line contains ready

	mu    sync.Mutex
	seen  bool
	part  []byte // an unfinished line
	lines []string
}

func newLogTail(ready string) *logTail {
	return &logTail{ready: ready, found: make(chan struct{})}
}

const tailLines = 20

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if len(l.lines) == tailLines {
			l.lines = append(l.lines[:0], l.lines[1:]...)
		}
		l.lines = append(l.lines, string(line))
		if !l.seen && bytes.Contains(line, []byte(l.ready)) {
			l.seen = true
			close(l.found)
		}
		l.part = append(l.part[:0], rest...)
	}
}

// String returns the last lines, indented.
func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return "    (it logged nothing)"
	}
	return "    " + strings.Join(l.lines, "\n    ")
}
