package jepsen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const (
	maxForm  = 1 << 20 // bytes of one operation map
	maxDepth = 64      // brackets inside one another: the parsers behind this recurse
)

// forms cuts a file into operation maps without understanding them, so that an error
// can name the line, no map is too large or too deep for the parser it is given to,
// and a file of any length is read in little memory.
type forms struct {
	in    *bufio.Reader
	json  bool
	line  int
	bytes int64
	limit int64
	form  []byte // scratch

	closer    byte // of the vector or list around the maps; 0 if there is none
	opened    int  // line on which it begins
	last      int  // line on which the latest map ends
	begun     bool // something has been read
	closed    bool // the vector or list has ended
	separated bool // JSON: a comma since the last map
	any       bool // a map has been read
}

// next returns the next byte. At the end of the file it is io.EOF; any other error is
// final.
func (f *forms) next() (byte, error) {
	c, err := f.in.ReadByte()
	if err != nil {
		if err == io.EOF {
			return 0, io.EOF
		}
		return 0, fmt.Errorf("line %d: reading the file: %w", f.line, err)
	}
	if f.bytes++; f.bytes > f.limit {
		return 0, fmt.Errorf("line %d: the file is larger than %d bytes, the limit", f.line, f.limit)
	}
	if c == '\n' {
		f.line++
	}
	return c, nil
}

func (f *forms) back(c byte) {
	f.in.UnreadByte() // succeeds after a ReadByte
	f.bytes--
	if c == '\n' {
		f.line--
	}
}

func (f *forms) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", f.line, fmt.Errorf(format, args...))
}

// Next returns the bytes of the next map, valid until the following call, and the line
// on which it begins; io.EOF after the last one, when the whole file has been read.
func (f *forms) Next() (form []byte, line int, err error) {
	tagged := false
	for {
		c, err := f.next()
		if err == io.EOF {
			switch {
			case tagged:
				return nil, 0, f.errorf("the file ends after a tag")
			case f.closer != 0 && !f.closed:
				return nil, 0, f.errorf("the file is truncated: the %q of line %d is not closed", opener(f.closer), f.opened)
			}
			return nil, 0, io.EOF
		}
		if err != nil {
			return nil, 0, err
		}
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		case c == ',' && !f.json:
			continue
		case c == ',':
			if f.closer == 0 || f.closed || !f.any || f.separated {
				return nil, 0, f.errorf("unexpected comma")
			}
			f.separated = true
			continue
		case c == ';' && !f.json:
			if err := f.comment(); err != nil && err != io.EOF {
				return nil, 0, err
			}
			continue
		case c == '#' && !f.json:
			discards, err := f.hash()
			if err != nil {
				return nil, 0, err
			}
			if discards {
				if err := f.discard(); err != nil {
					return nil, 0, err
				}
			} else {
				tagged = true
			}
			continue
		case f.closed:
			return nil, 0, f.errorf("something follows the end of the history: %q", c)
		case c == '{':
			if f.json && f.closer != 0 && f.any && !f.separated {
				return nil, 0, f.errorf("a comma is missing before the operation")
			}
			f.begun, f.any, f.separated = true, true, false
			line := f.line
			f.form = append(f.form[:0], c)
			if err := f.balanced('}', &f.form); err != nil {
				return nil, 0, err
			}
			f.last = f.line
			return f.form, line, nil
		case !f.begun && (c == '[' || c == '(' && !f.json):
			f.begun, f.closer, f.opened, tagged = true, closer(c), f.line, false
			continue
		case f.closer != 0 && c == f.closer && !tagged && !(f.json && f.separated):
			f.closed = true
			continue
		}
		return nil, 0, f.errorf("an operation is a map, and this begins with %q", c)
	}
}

func closer(c byte) byte {
	switch c {
	case '[':
		return ']'
	case '(':
		return ')'
	case '{':
		return '}'
	}
	return 0
}

func opener(c byte) byte {
	switch c {
	case ']':
		return '['
	case ')':
		return '('
	}
	return '{'
}

// comment skips the rest of the line.
func (f *forms) comment() error {
	for {
		if c, err := f.next(); err != nil || c == '\n' {
			return err
		}
	}
}

// hash reads what follows a #: a tag's name, or the _ that discards a form.
func (f *forms) hash() (discards bool, err error) {
	for n := 0; ; n++ {
		c, err := f.next()
		switch {
		case err == io.EOF:
			return false, f.errorf("the file ends in a tag")
		case err != nil:
			return false, err
		case n == 0 && c == '_':
			return true, nil
		case delimits(c):
			f.back(c)
			if n == 0 {
				return false, f.errorf("a # without a tag's name")
			}
			return false, nil
		case n > 200:
			return false, f.errorf("a tag of more than 200 bytes")
		}
	}
}

func delimits(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ';', '"', '(', ')', '[', ']', '{', '}':
		return true
	}
	return false
}

// discard skips one form.
func (f *forms) discard() error {
	for {
		c, err := f.next()
		switch {
		case err == io.EOF:
			return f.errorf("the file ends where #_ discards something")
		case err != nil:
			return err
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',':
			continue
		case c == ';':
			if err := f.comment(); err != nil && err != io.EOF {
				return err
			}
			continue
		case c == '#':
			discards, err := f.hash()
			if err != nil {
				return err
			}
			if discards {
				if err := f.discard(); err != nil {
					return err
				}
			}
			continue
		case closer(c) != 0:
			return f.balanced(closer(c), nil)
		case c == '"':
			return f.text(nil)
		case delimits(c):
			return f.errorf("#_ discards nothing")
		}
		for n := 0; !delimits(c); n++ {
			if c, err = f.next(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if n > maxForm {
				return f.errorf("a word of more than %d bytes", maxForm)
			}
		}
		f.back(c)
		return nil
	}
}

var errUnclosed = errors.New("the file is truncated: it ends inside an operation")

// balanced reads up to the bracket that closes the one just read, appending to form
// unless that is nil.
func (f *forms) balanced(close byte, form *[]byte) error {
	began := f.line
	stack := append(make([]byte, 0, maxDepth), close)
	size := 1
	take := func() (byte, error) {
		c, err := f.next()
		if err == io.EOF {
			return 0, f.errorf("%w that begins on line %d", errUnclosed, began)
		}
		if err != nil {
			return 0, err
		}
		if size++; size > maxForm {
			return 0, f.errorf("the operation that begins on line %d is longer than %d bytes", began, maxForm)
		}
		if form != nil {
			*form = append(*form, c)
		}
		return c, nil
	}
	for len(stack) > 0 {
		c, err := take()
		if err != nil {
			return err
		}
		switch {
		case closer(c) != 0:
			if len(stack) == maxDepth {
				return f.errorf("more than %d brackets inside one another", maxDepth)
			}
			stack = append(stack, closer(c))
		case c == ']' || c == '}' || c == ')':
			if c != stack[len(stack)-1] {
				return f.errorf("%q closes the operation that begins on line %d where %q is due", c, began, stack[len(stack)-1])
			}
			stack = stack[:len(stack)-1]
		case c == '"':
			if err := f.text(take); err != nil {
				return err
			}
		case c == ';' && !f.json:
			for c != '\n' {
				if c, err = take(); err != nil {
					return err
				}
			}
		case c == '\\' && !f.json: // a character, which may be a bracket
			if _, err := take(); err != nil {
				return err
			}
		}
	}
	return nil
}

// text reads the rest of a string.
func (f *forms) text(take func() (byte, error)) error {
	n := 0
	if take == nil {
		take = func() (byte, error) {
			if n++; n > maxForm {
				return 0, f.errorf("a string of more than %d bytes", maxForm)
			}
			c, err := f.next()
			if err == io.EOF {
				return 0, f.errorf("the file ends inside a string")
			}
			return c, err
		}
	}
	for {
		c, err := take()
		if err != nil {
			return err
		}
		switch c {
		case '"':
			return nil
		case '\\':
			if _, err := take(); err != nil {
				return err
			}
		}
	}
}
