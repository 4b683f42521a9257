// Package resp reads the Redis serialization protocol, versions 2 and 3: whole values
// with [Read], and with [Framer] the borders between the commands or replies of a
// byte stream that only passes by.
//
// The protocol is described at https://redis.io/docs/latest/develop/reference/protocol-spec/.
// Streamed strings and aggregates (a "?" in place of a length) are refused: no Redis
// server sends them.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits of what is read. Memory grows with the bytes that really arrive, never with
// a length that was only announced.
const (
	MaxBulk  = 512 << 20 // bytes of one bulk string: the server's own default limit
	MaxLine  = 64 << 20  // bytes of one line; MONITOR puts a whole command, escaped, on a line
	MaxElems = 1 << 20   // elements of one aggregate; pairs of a map count twice
	MaxDepth = 32        // aggregates within aggregates

	maxHeader = 32       // bytes of a line that announces a length
	maxInline = 64 << 10 // bytes of an inline command: the server's own limit
)

// ErrProtocol is wrapped by every error that is about the bytes and not about reading
// them: what follows on the connection cannot be told apart any more.
var ErrProtocol = errors.New("not RESP")

// Value is one value of RESP2 or RESP3.
type Value struct {
	// Kind is the type byte on the wire: + - : $ * _ # , ( ! = % ~ > or |. The nulls
	// of RESP2, "$-1" and "*-1", come as '_'.
	Kind byte
	// Str is what a scalar says: the text of a simple string, error or bulk string;
	// the digits of a number; "t" or "f"; a verbatim string with its format ("txt:…").
	Str string
	// Elems are the elements of an aggregate. Those of a map ('%') are keys and values
	// in turn. Those of an attribute ('|') are keys and values in turn and, last, the
	// value that the attribute belongs to.
	Elems []Value
}

// Null says whether v is a null of either version.
func (v Value) Null() bool { return v.Kind == '_' }

// Err returns the error that v is ('-' or '!'), or nil.
func (v Value) Err() error {
	if v.Kind != '-' && v.Kind != '!' {
		return nil
	}
	return Error(v.Str)
}

// Error is an error that a server answered, such as "NOSCRIPT No matching script".
type Error string

func (e Error) Error() string { return string(e) }

// Int returns the integer that v is, or that its text spells.
func (v Value) Int() (int64, error) {
	n, err := strconv.ParseInt(v.Str, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: a value of kind %q is no integer: %.40q", ErrProtocol, v.Kind, v.Str)
	}
	return n, nil
}

// Read reads one complete value. The error is io.EOF only if the stream ended before
// the first byte of a value, io.ErrUnexpectedEOF if it ended within one, and wraps
// [ErrProtocol] if the bytes are no value.
func Read(r *bufio.Reader) (Value, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return Value{}, err
	}
	v, err := readBehind(r, kind, 0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// readBehind reads the value whose type byte was kind, within depth aggregates.
func readBehind(r *bufio.Reader, kind byte, depth int) (Value, error) {
	switch shapeOf(kind) {
	case scalar:
		line, err := readLine(r, MaxLine)
		return Value{Kind: kind, Str: string(line)}, err
	case bulk:
		n, err := readLength(r, kind, MaxBulk)
		if err != nil || n < 0 {
			return Value{Kind: '_'}, err
		}
		s, err := readBulk(r, n)
		return Value{Kind: kind, Str: s}, err
	case aggregate:
		n, err := readLength(r, kind, MaxElems)
		if err != nil || n < 0 {
			return Value{Kind: '_'}, err
		}
		if depth++; depth > MaxDepth {
			return Value{}, errDepth
		}
		n = children(kind, n)
		v := Value{Kind: kind, Elems: make([]Value, 0, min(n, 16))}
		for range n {
			if v.Elems, err = readNext(r, v.Elems, depth); err != nil {
				return Value{}, err
			}
		}
		if kind == '|' {
			if next, err := r.Peek(1); err == nil && next[0] == '|' {
				return Value{}, errAttributes
			}
			// Its value stands in its place, so it is no deeper.
			v.Elems, err = readNext(r, v.Elems, depth-1)
		}
		return v, err
	}
	return Value{}, errKind(kind)
}

func readNext(r *bufio.Reader, elems []Value, depth int) ([]Value, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return elems, err
	}
	v, err := readBehind(r, kind, depth)
	return append(elems, v), err
}

var (
	errDepth      = fmt.Errorf("%w: aggregates nested deeper than %d", ErrProtocol, MaxDepth)
	errAttributes = fmt.Errorf("%w: an attribute of an attribute", ErrProtocol)
	errEnd        = fmt.Errorf("%w: a line or string does not end with CR LF", ErrProtocol)
)

func errKind(kind byte) error {
	return fmt.Errorf("%w: no value starts with %q", ErrProtocol, kind)
}

func readLength(r *bufio.Reader, kind byte, limit int64) (int64, error) {
	line, err := readLine(r, maxHeader)
	if err != nil {
		return 0, err
	}
	return parseLength(kind, line, limit)
}

// readLine returns a line without its end, valid until the next read.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	for part := line; err == bufio.ErrBufferFull; {
		if len(line) == len(part) {
			line = append([]byte(nil), part...)
		}
		if len(line) > limit {
			break
		}
		part, err = r.ReadSlice('\n')
		line = append(line, part...)
	}
	if err != nil && err != bufio.ErrBufferFull {
		return nil, err
	}
	n := len(line) - 2
	if n > limit || n < 0 || err != nil {
		return nil, fmt.Errorf("%w: a line is empty or longer than %d bytes", ErrProtocol, limit)
	}
	if line[n] != '\r' {
		return nil, errEnd
	}
	return line[:n], nil
}

func readBulk(r *bufio.Reader, n int64) (string, error) {
	const step = 64 << 10
	buf := make([]byte, min(n+2, step))
	for have := int64(0); ; {
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			return "", err
		}
		have = int64(len(buf))
		if have == n+2 {
			break
		}
		// Doubling keeps the memory within a factor of what has arrived.
		buf = append(buf, make([]byte, min(n+2-have, have))...)
	}
	if buf[n] != '\r' || buf[n+1] != '\n' {
		return "", errEnd
	}
	return string(buf[:n]), nil
}

type shape uint8

const (
	noShape   shape = iota
	scalar          // one line
	bulk            // a length, then so many bytes
	aggregate       // a count, then so many values
)

func shapeOf(kind byte) shape {
	switch kind {
	case '+', '-', ':', '_', '#', ',', '(':
		return scalar
	case '$', '!', '=':
		return bulk
	case '*', '%', '~', '>', '|':
		return aggregate
	}
	return noShape
}

// children turns the count of an aggregate's header into a number of values.
func children(kind byte, n int64) int64 {
	if kind == '%' || kind == '|' {
		return 2 * n
	}
	return n
}

// parseLength reads the line behind kind; −1 means null, which exists for '$' and '*' only.
func parseLength(kind byte, line []byte, limit int64) (int64, error) {
	n, err := strconv.ParseInt(string(line), 10, 64)
	null := n == -1 && (kind == '$' || kind == '*')
	if err != nil || (n < 0 && !null) {
		return 0, fmt.Errorf("%w: %q is no length of a %q", ErrProtocol, line, kind)
	}
	if n > limit || children(kind, n) > max(limit, MaxElems) {
		return 0, fmt.Errorf("%w: the length %d of a %q is beyond the limit of %d", ErrProtocol, n, kind, limit)
	}
	return n, nil
}
