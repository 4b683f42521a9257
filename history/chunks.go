package history

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

// chunkSize is how much of a file is decoded at a time by one goroutine. It must hold a
// line of maxLine bytes.
const chunkSize = maxLine

// chunk is a run of whole lines, and then what they say.
type chunk struct {
	data []byte
	done chan struct{}

	events  []Event
	lines   int   // up to and including the one at fault, or the end line
	err     error // of the last of these lines
	ended   bool  // the last of these lines is an end line
	last    end
	more    bool  // lines follow the end line
	readErr error // after the last line
}

// chunks reads a file ahead and hands out its chunks in order, decoded.
type chunks struct {
	in   io.Reader
	size int64 // of the file, 0 if not known
	rest []byte
	over bool  // rest is all there is
	err  error // of reading, behind rest

	queue chan *chunk
	quit  chan struct{}
	tasks sync.WaitGroup
	pool  sync.Pool
}

func newChunks(r io.Reader) *chunks {
	c := &chunks{in: r, quit: make(chan struct{})}
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			c.size = info.Size()
		}
	}
	c.pool.New = func() any { return &chunk{} }
	return c
}

// fill reads until buf has a chunk, and cuts it behind the last line end; what is left
// over goes to rest.
func (c *chunks) fill(buf []byte) []byte {
	buf = append(buf[:0], c.rest...)
	c.rest = c.rest[:0]
	for !c.over && len(buf) < chunkSize {
		if len(buf) == cap(buf) {
			// Most histories are small.
			size := min(max(2*len(buf), 1<<16), chunkSize)
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := c.in.Read(buf[len(buf):min(cap(buf), chunkSize)])
		buf = buf[:len(buf)+n]
		if err != nil {
			c.over = true
			if err != io.EOF {
				c.err = err
			}
		}
	}
	at := bytes.LastIndexByte(buf, '\n') + 1
	switch {
	case c.over && c.err == nil:
		return buf // the last line may do without a line end
	case c.over:
		return buf[:at] // nothing is known of a line that could not be read
	case at == 0:
		c.over, c.err = true, errTooLong
		return buf[:0]
	}
	c.rest = append(c.rest, buf[at:]...)
	return buf[:at]
}

var errTooLong = fmt.Errorf("longer than %d bytes: %w", maxLine, ErrForeign)

// header returns the first line.
func (c *chunks) header() ([]byte, error) {
	buf := c.fill(nil)
	if len(buf) == 0 {
		if c.err != nil {
			return nil, fmt.Errorf("line 1: %w", c.err)
		}
		return nil, fmt.Errorf("line 1: the file is empty: %w", ErrForeign)
	}
	line, after := cutLine(buf)
	if len(line) >= maxLine {
		return nil, fmt.Errorf("line 1: %w", errTooLong)
	}
	c.rest = append(after[:len(after):len(after)], c.rest...)
	return bytes.TrimSuffix(line, []byte{'\r'}), nil
}

// cutLine returns the first line without its end, and what follows.
func cutLine(b []byte) (line, after []byte) {
	if at := bytes.IndexByte(b, '\n'); at >= 0 {
		return b[:at], b[at+1:]
	}
	return b, nil
}

// start begins to read ahead, by as many chunks as there are processors and one more.
func (c *chunks) start() {
	workers := min(max(runtime.GOMAXPROCS(0), 1), 8)
	c.queue = make(chan *chunk, workers)
	work := make(chan *chunk, workers)
	for range workers {
		c.tasks.Go(func() {
			var f fastLine
			for p := range work {
				p.decode(&f)
				close(p.done)
			}
		})
	}
	c.tasks.Go(func() {
		defer close(c.queue)
		defer close(work)
		for done := false; !done; {
			p := c.pool.Get().(*chunk)
			*p = chunk{data: p.data, events: p.events[:0], done: make(chan struct{})}
			p.data = c.fill(p.data)
			if c.over && len(c.rest) == 0 {
				p.readErr, done = c.err, true
			}
			select {
			case work <- p:
			case <-c.quit:
				return
			}
			select {
			case c.queue <- p:
			case <-c.quit:
				return
			}
		}
	})
}

// next returns the next chunk, decoded; false after the last one.
func (c *chunks) next() (*chunk, bool) {
	p, ok := <-c.queue
	if ok {
		<-p.done
	}
	return p, ok
}

// recycle lets the memory of p be used again; its events have been copied.
func (c *chunks) recycle(p *chunk) { c.pool.Put(p) }

// stop ends the reading ahead, and returns when nobody reads any more.
func (c *chunks) stop() {
	close(c.quit)
	c.tasks.Wait()
}

// expect guesses from the first chunk how many events the file has, so that room for
// them need not be made in steps.
func (c *chunks) expect(first *chunk) int {
	if len(first.data) == 0 || first.err != nil {
		return 0
	}
	more := max(0, c.size-int64(len(first.data)))
	n := len(first.events) + int(float64(more)/float64(len(first.data))*float64(len(first.events))*1.02)
	return min(n, 1<<26)
}

func (p *chunk) decode(f *fastLine) {
	b := p.data
	for len(b) > 0 {
		var line []byte
		long := false
		if line, b = cutLine(b); len(line) >= maxLine {
			long = true
		}
		p.lines++
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		switch {
		case long:
			p.err = errTooLong
			return
		case bytes.HasPrefix(line, []byte(`{"end":`)):
			p.ended, p.more = true, len(b) > 0
			p.err = strict(line, &p.last)
			return
		}
		p.events = append(p.events, Event{})
		e := &p.events[len(p.events)-1]
		if f.decode(line, e) {
			continue
		}
		var err error
		if *e, err = decodeEvent(line); err != nil {
			p.events = p.events[:len(p.events)-1]
			p.err = err
			return
		}
	}
}
