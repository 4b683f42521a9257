package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"lockstress/internal/clock"

	"golang.org/x/sys/unix"
)

// segment is how much of the journal is mapped at a time.
const segment = 4 << 20

// Recorder writes events to a journal that survives the death of its process: the
// file is mapped into memory and shared, so an event is in the kernel's hands as
// soon as it is copied, without a system call. (It does not survive the death of
// the machine; no trial does.)
type Recorder struct {
	mu     sync.Mutex
	file   *os.File
	origin int64
	window []byte // the mapped segment
	base   int64  // its offset in the file
	used   int    // bytes of it that are written
	line   []byte // scratch
	err    error
}

// Create starts a journal with the given header; event times count from its Origin.
func Create(path string, header Header) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	r := &Recorder{file: f, origin: header.Origin, line: make([]byte, 0, 1<<10)}
	header.Format, header.Version = Format, Version
	first, err := json.Marshal(header)
	if err == nil {
		err = r.slide()
	}
	if err == nil {
		err = r.append(append(first, '\n'))
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
// process's journal takes a line for written only when it is terminated.
func (r *Recorder) append(line []byte) error {
	for len(r.window)-r.used < len(line) {
		if err := r.slide(); err != nil {
			return err
		}
	}
	at := r.window[r.used : r.used+len(line)]
	last := len(line) - 1
	copy(at[:last], line[:last])
	at[last] = line[last]
	r.used += len(line)
	return nil
}

// slide maps the part of the file that begins at the page being written.
func (r *Recorder) slide() error {
	page := int64(os.Getpagesize())
	at := r.base + int64(r.used)
	base := at / page * page
	// Space is allocated beforehand: writing to a mapped page for which the
	// disk has no room would kill the process.
	if err := allocate(r.file, base, segment); err != nil {
		return fmt.Errorf("no room for the journal %s: %w", r.file.Name(), err)
	}
	window, err := unix.Mmap(int(r.file.Fd()), base, segment, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the journal %s: %w", r.file.Name(), err)
	}
	if r.window != nil {
		unix.Munmap(r.window)
	}
	r.window, r.base, r.used = window, base, int(at-base)
	return nil
}

// Close ends the journal and cuts the unused space off.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	size := r.base + int64(r.used)
	if r.window != nil {
		unix.Munmap(r.window)
		r.window = nil
	}
	if r.err == nil {
		r.err = os.ErrClosed
	}
	err := r.file.Truncate(size)
	if e := r.file.Close(); err == nil {
		err = e
	}
	r.file = nil
	return err
}
