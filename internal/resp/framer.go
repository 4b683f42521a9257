package resp

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

const (
	maxArgs  = 4             // elements of a frame that a Framer remembers
	maxArg   = 64            // bytes it remembers of each
	maxCount = math.MaxInt32 // elements of one aggregate; none is kept, so only overflow matters
)

// Framer finds the borders of the commands (or replies) in a byte stream that arrives
// in arbitrary pieces. It keeps no bytes but the first few elements of the frame it is
// in, each cut to 64 bytes, so its memory is bounded whatever passes by: who needs the
// bytes of a frame has them, in the pieces given to [Framer.Feed].
type Framer struct {
	request bool
	step    step
	err     error

	kind       byte
	count      int64
	args       [][]byte
	open       []level
	attributed bool // an attribute was read and its value is due

	head   byte   // type byte of the value that line belongs to
	line   []byte // so much of the present line
	length int    // of the line so far, line end included
	last   byte   // last byte of the line so far
	left   int64  // bytes of the present bulk still to come, its CR LF included
	keep   bool   // the present element is remembered
	quote  byte   // inline: the open quotation mark
	escape bool   // inline: the byte before was a backslash within double quotes
	word   bool   // inline: within a word
}

// level is an aggregate whose elements are being read, or the slot of the frame itself.
type level struct {
	left      int64
	attribute bool
}

type step uint8

const (
	between step = iota // no byte of the next frame was seen
	atValue             // a type byte is due
	inLine
	inBulk
	inInline
)

// NewRequestFramer returns a Framer for what a client sends: arrays of bulk strings,
// and inline commands.
func NewRequestFramer() *Framer { return &Framer{request: true} }

// NewReplyFramer returns a Framer for what a server sends. An attribute and the value
// it belongs to are one frame.
func NewReplyFramer() *Framer { return &Framer{} }

// Feed takes the next bytes of the stream up to the end of the present frame: n of
// them, n = len(p) unless a frame ended earlier. With done the frame is complete and
// the accessors describe it until the next call. The error wraps [ErrProtocol]; it
// stays, since nothing behind it can be told apart.
func (f *Framer) Feed(p []byte) (n int, done bool, err error) {
	if f.err != nil {
		return 0, false, f.err
	}
	for n < len(p) && !done && f.err == nil {
		used := 1
		switch f.step {
		case between:
			f.begin()
			if f.request && p[n] != '*' {
				f.step, f.kind, used = inInline, 0, 0
				continue
			}
			fallthrough
		case atValue:
			f.value(p[n])
		case inLine:
			used, done = f.feedLine(p[n:])
		case inBulk:
			used, done = f.feedBulk(p[n:])
		case inInline:
			done = f.inline(p[n])
		}
		n += used
	}
	if done {
		f.step = between
	}
	return n, done, f.err
}

// Within says that a frame has begun and is not complete.
func (f *Framer) Within() bool { return f.step != between }

// Kind is the type byte of the frame, behind any attribute; 0 before it is known and
// for an inline command.
func (f *Framer) Kind() byte { return f.kind }

// Count is the number of elements of an aggregate (pairs of a map count twice), and of
// words of an inline command. 0 means that a request is empty: a server ignores it.
func (f *Framer) Count() int64 { return f.count }

// Args returns up to four of the first elements of the frame, each cut to 64 bytes:
// for a request the name and the first arguments. Elements that are aggregates
// themselves are left out. A scalar or string counts as its own only element.
func (f *Framer) Args() []string {
	out := make([]string, len(f.args))
	for i, a := range f.args {
		out[i] = string(a)
	}
	return out
}

// First is the first of Args, or "".
func (f *Framer) First() string {
	if len(f.args) == 0 {
		return ""
	}
	return string(f.args[0])
}

// Name is the command's name in upper case.
func (f *Framer) Name() string { return strings.ToUpper(f.First()) }

// Identified says that Kind is known, and of an aggregate First too, so that a reply
// can be told from a message before it is complete.
func (f *Framer) Identified() bool {
	switch {
	case f.kind == 0:
		return false
	case shapeOf(f.kind) != aggregate || len(f.open) == 0:
		return true
	case len(f.open) == 1: // its header is not complete
		return false
	case len(f.open) > 2 && !f.open[2].attribute:
		return true
	}
	return f.open[1].left < f.count
}

func (f *Framer) begin() {
	f.kind, f.count, f.attributed = 0, 0, false
	f.args, f.open = f.args[:0], append(f.open[:0], level{left: 1})
	f.quote, f.escape, f.word, f.keep, f.length = 0, false, false, false, 0
}

func (f *Framer) fail(err error) bool {
	f.err = err
	return false
}

// value takes a type byte.
func (f *Framer) value(kind byte) {
	s := shapeOf(kind)
	if s == noShape || (f.request && len(f.open) > 1 && kind != '$') {
		f.fail(errKind(kind))
		return
	}
	if kind == '|' && f.attributed {
		f.fail(errAttributes)
		return
	}
	if len(f.open) == 1 && kind != '|' {
		f.kind = kind
	}
	f.keep = s != aggregate && len(f.args) < maxArgs &&
		(len(f.open) == 1 || (len(f.open) == 2 && !f.open[1].attribute))
	if f.keep {
		f.remember()
	}
	f.attributed = false
	f.step, f.head, f.line, f.length, f.last = inLine, kind, f.line[:0], 0, 0
}

// remember starts the next of args in memory of an earlier frame.
func (f *Framer) remember() {
	if len(f.args) < cap(f.args) {
		f.args = f.args[:len(f.args)+1]
		f.args[len(f.args)-1] = f.args[len(f.args)-1][:0]
		return
	}
	f.args = append(f.args, make([]byte, 0, maxArg))
}

func (f *Framer) record(p []byte) {
	a := &f.args[len(f.args)-1]
	*a = append(*a, p[:min(len(p), maxArg-len(*a))]...)
}

func (f *Framer) feedLine(p []byte) (n int, done bool) {
	end := bytes.IndexByte(p, '\n')
	text := p
	if end >= 0 {
		text = p[:end]
	}
	n = len(text)
	f.length += n
	if n > 0 {
		f.last = text[n-1]
	}
	plain := shapeOf(f.head) == scalar
	if !plain && f.length > maxHeader+1 {
		return n, f.fail(fmt.Errorf("%w: a length of more than %d digits", ErrProtocol, maxHeader))
	}
	if room := maxArg + 1 - len(f.line); !plain || f.keep {
		f.line = append(f.line, text[:min(n, room)]...)
	}
	if end < 0 {
		return n, false
	}
	n++
	if f.last != '\r' {
		return n, f.fail(errEnd)
	}
	line := f.line[:min(len(f.line), f.length-1)]
	switch shapeOf(f.head) {
	case bulk:
		size, err := parseLength(f.head, line, MaxBulk)
		if err == nil && size < 0 && f.request {
			err = fmt.Errorf("%w: a null in a command", ErrProtocol)
		}
		if err != nil {
			return n, f.fail(err)
		}
		if size < 0 {
			return n, f.complete()
		}
		f.left, f.last, f.step = size+2, 0, inBulk
		return n, false
	case aggregate:
		return n, f.descend(line)
	}
	if f.keep {
		f.record(line)
	}
	return n, f.complete()
}

// descend opens the aggregate announced by line.
func (f *Framer) descend(line []byte) (done bool) {
	if len(f.open) > MaxDepth {
		return f.fail(errDepth)
	}
	n, err := parseLength(f.head, line, maxCount)
	if err != nil {
		return f.fail(err)
	}
	n = children(f.head, n)
	f.step = atValue
	if f.head == '|' {
		// The value that it belongs to takes the place that is open already.
		f.attributed = n == 0
		if n > 0 {
			f.open = append(f.open, level{n, true})
		}
		return false
	}
	if len(f.open) == 1 {
		f.count = n
	}
	if n <= 0 {
		if f.request {
			f.count = 0
		}
		return f.complete()
	}
	f.open = append(f.open, level{n, false})
	return false
}

func (f *Framer) feedBulk(p []byte) (n int, done bool) {
	n = int(min(f.left, int64(len(p))))
	if content := f.left - 2; content > 0 && f.keep {
		f.record(p[:min(int64(n), content)])
	}
	for i := max(0, f.left-2); i < int64(n); i++ {
		if p[i] != "\n\r"[f.left-i-1] {
			return n, f.fail(errEnd)
		}
	}
	f.left -= int64(n)
	if f.left > 0 {
		return n, false
	}
	return n, f.complete()
}

// complete closes the value just read and every aggregate that it completes.
func (f *Framer) complete() (done bool) {
	f.step, f.keep = atValue, false
	for len(f.open) > 0 {
		top := &f.open[len(f.open)-1]
		if top.left--; top.left > 0 {
			return false
		}
		attribute := top.attribute
		f.open = f.open[:len(f.open)-1]
		if attribute {
			f.attributed = true
			return false
		}
	}
	return true
}

// inline takes one byte of an inline command. Words are split as the server does it:
// at blanks outside of quotation marks.
func (f *Framer) inline(b byte) (done bool) {
	if b == '\n' {
		return true
	}
	if f.length++; f.length > maxInline {
		return f.fail(fmt.Errorf("%w: an inline command of more than %d bytes", ErrProtocol, maxInline))
	}
	blank := b == ' ' || b == '\t' || b == '\r' || b == '\v' || b == '\f' || b == 0
	switch {
	case f.escape:
		f.escape = false
	case f.quote == '"' && b == '\\':
		f.escape = true
		return false
	case f.quote != 0 && b == f.quote:
		f.quote = 0
		return false
	case f.quote != 0:
	case blank:
		f.word = false
		return false
	}
	if !f.word {
		f.word = true
		f.count++
		if f.keep = len(f.args) < maxArgs; f.keep {
			f.remember()
		}
	}
	if f.quote == 0 && (b == '"' || b == '\'') {
		f.quote = b
		return false
	}
	if f.keep {
		f.record([]byte{b})
	}
	return false
}
