package witness

import (
	"fmt"
	"strconv"
	"strings"
)

// line is one line of MONITOR: a command that a server has executed.
type line struct {
	wall int64 // nanoseconds since 1970 on the server's wall clock
	db   int
	from string // address of the client, or "lua" for a command of a script
	args []string
}

// parseLine reads a line such as
//
//	1796077771.176147 [0 127.0.0.1:59184] "set" "k" "a" "nx" "px" "300"
//
// in which arguments are escaped as the server's sdscatrepr does.
func parseLine(s string) (line, error) {
	var l line
	stamp, rest, ok := strings.Cut(s, " [")
	origin, quoted, ok2 := strings.Cut(rest, `] "`)
	if !ok || !ok2 {
		return l, fmt.Errorf("not a line of MONITOR: %.80q", s)
	}
	seconds, micros, _ := strings.Cut(stamp, ".")
	sec, err := strconv.ParseInt(seconds, 10, 64)
	usec, err2 := strconv.ParseInt(micros, 10, 64)
	db, from, ok := strings.Cut(origin, " ")
	number, err3 := strconv.Atoi(db)
	if err != nil || err2 != nil || err3 != nil || !ok {
		return l, fmt.Errorf("not a line of MONITOR: %.80q", s)
	}
	l.wall, l.db, l.from = sec*1e9+usec*1e3, number, from
	for rest := `"` + quoted; ; {
		arg, left, err := unquote(rest)
		if err != nil {
			return l, fmt.Errorf("in a line of MONITOR (%.80q): %w", s, err)
		}
		l.args = append(l.args, arg)
		if left == "" {
			return l, nil
		}
		rest = strings.TrimPrefix(left, " ")
	}
}

// unquote reads one quoted argument and returns what follows it.
func unquote(s string) (arg, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", fmt.Errorf("no quote where an argument should begin")
	}
	s = s[1:]
	if i := strings.IndexAny(s, `"\`); i >= 0 && s[i] == '"' {
		return s[:i], s[i+1:], nil // the usual case: nothing escaped
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			i++
			if i == len(s) {
				return "", "", errOpen
			}
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case 't':
				b.WriteByte('\t')
			case 'a':
				b.WriteByte('\a')
			case 'b':
				b.WriteByte('\b')
			case 'x':
				if i+2 >= len(s) {
					return "", "", errOpen
				}
				v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
				if err != nil {
					return "", "", fmt.Errorf("bad escape: %w", err)
				}
				b.WriteByte(byte(v))
				i += 2
			default: // \" and \\
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", errOpen
}

var errOpen = fmt.Errorf("an argument does not end")
