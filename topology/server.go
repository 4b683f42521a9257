package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"lockstress/internal/proc"
)

// ErrNoRedis: there is no redis-server on the PATH.
var ErrNoRedis = errors.New("no redis-server on the PATH: install it with `apt-get install redis-server` or `brew install redis`")

// errPortTaken: somebody else was faster.
var errPortTaken = errors.New("the port is taken")

// server is one running process of Redis.
type server struct {
	*proc.Process
	log *logTail
}

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
	if s.Process, err = group.Start(name, cmd); err != nil {
		return nil, err
	}
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
