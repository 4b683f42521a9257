package resp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

var bigText = strings.Repeat("0123456789abcdef", 1<<16)

var values = []struct {
	name string
	wire string
	want Value
}{
	{"simple string", "+OK\r\n", Value{Kind: '+', Str: "OK"}},
	{"empty simple string", "+\r\n", Value{Kind: '+'}},
	{"error", "-ERR no\r\n", Value{Kind: '-', Str: "ERR no"}},
	{"integer", ":-12\r\n", Value{Kind: ':', Str: "-12"}},
	{"bulk", "$5\r\na\r\nbc\r\n", Value{Kind: '$', Str: "a\r\nbc"}},
	{"empty bulk", "$0\r\n\r\n", Value{Kind: '$'}},
	{"bulk of a megabyte", "$1048576\r\n" + bigText + "\r\n", Value{Kind: '$', Str: bigText}},
	{"line of a megabyte", "+" + bigText + "\r\n", Value{Kind: '+', Str: bigText}},
	{"null bulk", "$-1\r\n", Value{Kind: '_'}},
	{"null array", "*-1\r\n", Value{Kind: '_'}},
	{"null", "_\r\n", Value{Kind: '_'}},
	{"boolean", "#t\r\n", Value{Kind: '#', Str: "t"}},
	{"double", ",inf\r\n", Value{Kind: ',', Str: "inf"}},
	{"big number", "(349\r\n", Value{Kind: '(', Str: "349"}},
	{"bulk error", "!3\r\nERR\r\n", Value{Kind: '!', Str: "ERR"}},
	{"verbatim", "=6\r\ntxt:hi\r\n", Value{Kind: '=', Str: "txt:hi"}},
	{"empty array", "*0\r\n", Value{Kind: '*', Elems: []Value{}}},
	{"nested array", "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", Value{Kind: '*', Elems: []Value{
		{Kind: '*', Elems: []Value{{Kind: ':', Str: "1"}}}, {Kind: '$', Str: "x"}}}},
	{"map", "%1\r\n+a\r\n:1\r\n", Value{Kind: '%', Elems: []Value{{Kind: '+', Str: "a"}, {Kind: ':', Str: "1"}}}},
	{"set", "~1\r\n:1\r\n", Value{Kind: '~', Elems: []Value{{Kind: ':', Str: "1"}}}},
	{"push", ">2\r\n+message\r\n+c\r\n", Value{Kind: '>', Elems: []Value{{Kind: '+', Str: "message"}, {Kind: '+', Str: "c"}}}},
	{"attribute", "|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n", Value{Kind: '|', Elems: []Value{
		{Kind: '+', Str: "ttl"}, {Kind: ':', Str: "9"}, {Kind: '$', Str: "x"}}}},
	{"attribute within an array", "*2\r\n|1\r\n+ttl\r\n:9\r\n:1\r\n:2\r\n", Value{Kind: '*', Elems: []Value{
		{Kind: '|', Elems: []Value{{Kind: '+', Str: "ttl"}, {Kind: ':', Str: "9"}, {Kind: ':', Str: "1"}}},
		{Kind: ':', Str: "2"}}}},
}

func TestRead(t *testing.T) {
	for _, test := range values {
		t.Run(test.name, func(t *testing.T) {
			// Read one byte at a time too, and see that the next value is untouched.
			for _, r := range []io.Reader{
				strings.NewReader(test.wire + "+next\r\n"),
				iotest.OneByteReader(strings.NewReader(test.wire + "+next\r\n")),
			} {
				br := bufio.NewReader(r)
				got, err := Read(br)
				if err != nil || !reflect.DeepEqual(got, test.want) {
					t.Fatalf("got %.200v, %v; want %.200v", got, err, test.want)
				}
				if next, err := Read(br); err != nil || next.Str != "next" {
					t.Fatalf("the value behind it is %v, %v", next, err)
				}
			}
		})
	}
}

func TestReadCutShort(t *testing.T) {
	for _, test := range values {
		if len(test.wire) > 1000 {
			continue
		}
		for cut := range test.wire {
			_, err := Read(bufio.NewReader(strings.NewReader(test.wire[:cut])))
			want := io.ErrUnexpectedEOF
			if cut == 0 {
				want = io.EOF
			}
			if err != want {
				t.Errorf("%q cut at %d: got %v, want %v", test.wire, cut, err, want)
			}
		}
	}
}

var hostile = []string{
	"?\r\n", "\r\n", "PING\r\n", "+a\n", "$x\r\n", "$-2\r\n", "$\r\n", "*?\r\n", "$?\r\n", "%-1\r\n", "!-1\r\n",
	"$536870913\r\n", "*1048577\r\n", "%524289\r\n", "*9223372036854775807\r\n", "%9223372036854775807\r\n",
	"$99999999999999999999999999999999999999\r\n", "$1\r\nxyz", "$1\r\nx\n\n",
	strings.Repeat("*1\r\n", MaxDepth+1), "|0\r\n|0\r\n:1\r\n", "|1\r\n:1\r\n:2\r\n|0\r\n:1\r\n",
	"*" + strings.Repeat("1", 10_000),
}

func TestReadRefusesHostileInput(t *testing.T) {
	for _, wire := range hostile {
		v, err := Read(bufio.NewReader(strings.NewReader(wire)))
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%.60q: got %v, %v; want ErrProtocol", wire, v, err)
		}
	}
}

// Lengths that are only announced must not cost their memory.
func TestReadAllocatesWhatArrives(t *testing.T) {
	for _, wire := range []string{"$536870912\r\nx", strings.Repeat("*1048576\r\n", MaxDepth)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(bufio.NewReader(strings.NewReader(wire)))
		runtime.ReadMemStats(&after)
		if err != io.ErrUnexpectedEOF {
			t.Errorf("%.20q: %v", wire, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%.20q: %d bytes allocated", wire, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, test := range values {
		if len(test.wire) < 1000 {
			f.Add([]byte(test.wire))
		}
	}
	for _, wire := range hostile {
		f.Add([]byte(wire))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := bytes.NewReader(wire)
		br := bufio.NewReader(r)
		v, err := Read(br)
		// The framer is the independent second opinion: it must see the same border.
		framer := NewReplyFramer()
		n, done, ferr := framer.Feed(wire)
		switch {
		case err == nil:
			used := len(wire) - r.Len() - br.Buffered()
			if !done || n != used {
				t.Fatalf("Read used %d bytes for %v, the framer %d (done %v, %v)", used, v, n, done, ferr)
			}
			if framer.Kind() != v.Kind && v.Kind != '_' && v.Kind != '|' {
				t.Fatalf("Read says kind %q, the framer %q", v.Kind, framer.Kind())
			}
		case done:
			t.Fatalf("Read failed with %v, the framer found a frame of %d bytes", err, n)
		}
	})
}
