package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"lockstress/internal/clock"

	"golang.org/x/sys/unix"
)

const (
	// reach is how much of the journal is mapped at a time: address space only.
	reach = 256 << 20
	// step is how much of it is made ready at a time.
	step = 1 << 20
)

// Recorder writes events to a journal that survives the death of its process: the
// file is mapped into memory and shared, so an event is in the kernel's hands as
// soon as it is copied, without a system call. (It does not survive the death of
// the machine; no trial does.)
//
// A goroutine keeps space on the disk allocated and its pages present ahead of what
// is written, so that recording neither waits for the file system nor, if the disk
// is full, dies of a page without room.
type Recorder struct {
	file   *os.File
	origin int64

	mu     sync.Mutex
	window []byte // the mapped part
	base   int64  // its offset in the file
	used   int    // bytes of it that are written
	ready  int    // bytes of it that may be written
	line   []byte // scratch
	err    error

	ahead  chan struct{} // asks the goroutine for another step; closed at the end
	extend sync.Mutex    // one step at a time
	done   sync.WaitGroup
}

// Create starts a journal with the given header; event times count from its Origin.
func Create(path string, header Header) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	r := &Recorder{file: f, origin: header.Origin, line: make([]byte, 0, 1<<10), ahead: make(chan struct{}, 1)}
	ahead := r.ahead
	r.done.Go(func() { r.keepAhead(ahead) })
	header.Format, header.Version = Format, Version
	first, err := json.Marshal(header)
	if err == nil {
		r.mu.Lock()
		if err = r.slide(); err == nil {
			err = r.append(append(first, '\n'))
		}
		r.mu.Unlock()
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("starting the journal %s: %w", path, err)
	}
	return r, nil
}

// Record stamps e with the present moment and writes it. When it returns, the event
// outlives this process. It returns the stamp. Once a write has failed all later
// ones do, with the same error: a history with holes is worse than none.
func (r *Recorder) Record(e *Event) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time = clock.Now() - r.origin
	if r.err != nil {
		return e.Time, r.err
	}
	r.line = appendEvent(r.line[:0], e)
	r.err = r.append(r.line)
	return e.Time, r.err
}

// Now is the time that an event recorded now would carry.
func (r *Recorder) Now() int64 { return clock.Now() - r.origin }

// append copies one line into the mapping, its newline last: a reader of a killed
// process's journal takes a line for written only when it is terminated. The caller
// holds mu.
func (r *Recorder) append(line []byte) error {
	for r.ready-r.used < len(line) {
		if err := r.makeRoom(); err != nil {
			return err
		}
	}
	at := r.window[r.used : r.used+len(line)]
	last := len(line) - 1
	copy(at[:last], line[:last])
	at[last] = line[last]
	r.used += len(line)
	if r.ready-r.used < step {
		select {
		case r.ahead <- struct{}{}:
		default: // it has been asked already
		}
	}
	return nil
}

// makeRoom does what the goroutine has not got round to. The caller holds mu.
func (r *Recorder) makeRoom() error {
	if r.ready == len(r.window) {
		return r.slide()
	}
	r.mu.Unlock()
	err := r.step()
	r.mu.Lock()
	return err
}

// keepAhead makes steps when asked, until the end.
func (r *Recorder) keepAhead(ahead <-chan struct{}) {
	for range ahead {
		r.mu.Lock()
		wanted := r.ready-r.used < step && r.ready < len(r.window)
		r.mu.Unlock()
		if wanted {
			r.step() // if it fails, the writer meets the same error
		}
	}
}

// step makes the next part of the window ready. It holds mu only to look.
func (r *Recorder) step() error {
	r.extend.Lock()
	defer r.extend.Unlock()
	r.mu.Lock()
	window, base, from := r.window, r.base, r.ready
	r.mu.Unlock()
	to := min(from+step, len(window))
	if to <= from {
		return nil
	}
	if err := allocate(r.file, base+int64(from), int64(to-from)); err != nil {
		return fmt.Errorf("no room for the journal %s: %w", r.file.Name(), err)
	}
	populate(window[from:to])
	r.mu.Lock()
	r.ready = to
	r.mu.Unlock()
	return nil
}

// slide maps the part of the file that begins at the page being written. The caller
// holds mu, and no step is under way: none is begun when all of a window is ready.
func (r *Recorder) slide() error {
	page := int64(os.Getpagesize())
	at := r.base + int64(r.used)
	base := at / page * page
	window, err := unix.Mmap(int(r.file.Fd()), base, reach, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the journal %s: %w", r.file.Name(), err)
	}
	if r.window != nil {
		unix.Munmap(r.window)
	}
	r.window, r.base, r.used, r.ready = window, base, int(at-base), 0
	return nil
}

// Close ends the journal and cuts the unused space off.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if r.ahead == nil {
		r.mu.Unlock()
		return nil
	}
	close(r.ahead)
	r.ahead = nil
	if r.err == nil {
		r.err = os.ErrClosed
	}
	r.mu.Unlock()
	r.done.Wait()

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.window != nil {
		unix.Munmap(r.window)
		r.window = nil
	}
	err := r.file.Truncate(r.base + int64(r.used))
	if e := r.file.Close(); err == nil {
		err = e
	}
	return err
}
