package witness

import (
	"slices"
	"strings"
	"testing"
)

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		in   string
		want line
	}{
		{`1796077771.176147 [0 127.0.0.1:59184] "set" "k" "a" "nx" "px" "300"`,
			line{1796077771176147000, 0, "127.0.0.1:59184", []string{"set", "k", "a", "nx", "px", "300"}}},
		{`1.000002 [3 lua] "GET" ""`, line{1000002000, 3, "lua", []string{"GET", ""}}},
		{`1.000000 [0 [::1]:6] "PING"`, line{1000000000, 0, "[::1]:6", []string{"PING"}}},
		{`1.000000 [0 unix:/tmp/a b] "PING"`, line{1000000000, 0, "unix:/tmp/a b", []string{"PING"}}},
		{`1.000000 [0 lua] "SET" "a\x00\"\n\r\t\a\b\\b\xff" "] \"x\" "`,
			line{1000000000, 0, "lua", []string{"SET", "a\x00\"\n\r\t\a\b\\b\xff", "] \"x\" "}}},
	} {
		got, err := parseLine(c.in)
		if err != nil || got.wall != c.want.wall || got.db != c.want.db || got.from != c.want.from || !slices.Equal(got.args, c.want.args) {
			t.Errorf("%s\n got %+v, %v\nwant %+v", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{
		"", "OK", `1.0 [0 lua]`, `1.0 [0 lua] SET`, `x.0 [0 lua] "SET"`, `1.0 [x lua] "SET"`, `1.0 [0] "SET"`,
		`1.0 [0 lua] "SET`, `1.0 [0 lua] "SET\`, `1.0 [0 lua] "SET\x1"`, `1.0 [0 lua] "SET\xzz"`, `1.0 [0 lua] "SET" k`,
	} {
		if l, err := parseLine(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, l)
		}
	}
}

// FuzzParseLine: whatever was quoted is read back, and nothing panics.
func FuzzParseLine(f *testing.F) {
	f.Add("a", "b\"\\", `1.0 [0 lua] "SET\x1`)
	f.Fuzz(func(t *testing.T, a, b, raw string) {
		parseLine(raw)
		in := `1.000000 [0 lua] ` + repr(a) + " " + repr(b)
		l, err := parseLine(in)
		if err != nil || !slices.Equal(l.args, []string{a, b}) {
			t.Errorf("%s was read as %q, %v", in, l.args, err)
		}
	})
}

// repr quotes as a server does, character by character in the other direction.
func repr(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '\\', '"':
			b.WriteString(`\` + string(c))
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\a':
			b.WriteString(`\a`)
		case '\b':
			b.WriteString(`\b`)
		default:
			if c >= ' ' && c <= '~' {
				b.WriteByte(c)
			} else {
				b.WriteString(`\x` + string(hex[c>>4]) + string(hex[c&15]))
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
