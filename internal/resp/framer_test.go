package resp

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// frame is what a test expects, or saw, of one frame.
type frame struct {
	wire  string
	kind  byte
	count int64
	args  []string
}

// cut feeds the stream in pieces of the given size and collects the frames.
func cut(f *Framer, stream string, size int) (frames []frame, err error) {
	var wire strings.Builder
	for len(stream) > 0 {
		piece := stream[:min(size, len(stream))]
		stream = stream[len(piece):]
		for len(piece) > 0 {
			n, done, err := f.Feed([]byte(piece))
			if err != nil {
				return frames, err
			}
			wire.WriteString(piece[:n])
			piece = piece[n:]
			if done {
				frames = append(frames, frame{wire.String(), f.Kind(), f.Count(), f.Args()})
				wire.Reset()
			} else if len(piece) > 0 {
				return frames, fmt.Errorf("%d bytes left over without a frame", len(piece))
			}
		}
	}
	return frames, nil
}

var requests = []frame{
	{"*1\r\n$4\r\nPING\r\n", '*', 1, []string{"PING"}},
	{"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$4\r\n\r\n*1\r\n", '*', 3, []string{"set", "k", "\r\n*1"}},
	{"PING\r\n", 0, 1, []string{"PING"}},
	{"  del  'a b'\t\"c\\\" d\" \n", 0, 3, []string{"del", "a b", "c\" d"}},
	{"\r\n", 0, 0, []string{}},
	{"*0\r\n", '*', 0, []string{}},
	{"*-1\r\n", '*', 0, []string{}},
	{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", '*', 2, []string{"GET", ""}},
	{"*2\r\n$4\r\nECHO\r\n$70\r\n" + strings.Repeat("x", 70) + "\r\n", '*', 2, []string{"ECHO", strings.Repeat("x", 64)}},
	{"*6\r\n$4\r\nEVAL\r\n$1\r\ns\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\nb\r\n", '*', 6, []string{"EVAL", "s", "1", "k"}},
	{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n" + bigText[:100_000] + "\r\n", '*', 3, []string{"SET", "k", bigText[:64]}},
}

var replies = []frame{
	{"+OK\r\n", '+', 0, []string{"OK"}},
	{"-ERR " + strings.Repeat("x", 100) + "\r\n", '-', 0, []string{"ERR " + strings.Repeat("x", 60)}},
	{"$-1\r\n", '$', 0, []string{""}},
	{"$3\r\na\nb\r\n", '$', 0, []string{"a\nb"}},
	{"*-1\r\n", '*', -1, []string{}},
	{"*0\r\n", '*', 0, []string{}},
	{"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", '*', 3, []string{"message", "c", "hi"}},
	{"*2\r\n*2\r\n:1\r\n:2\r\n+x\r\n", '*', 2, []string{"x"}},
	{"%1\r\n+a\r\n*0\r\n", '%', 2, []string{"a"}},
	{">2\r\n+invalidate\r\n_\r\n", '>', 2, []string{"invalidate", ""}},
	{"|1\r\n+ttl\r\n:9\r\n+OK\r\n", '+', 0, []string{"OK"}},
	{"*2\r\n|1\r\n+ttl\r\n:9\r\n+a\r\n|0\r\n+b\r\n", '*', 2, []string{"a", "b"}},
}

func TestFramerCutsAnywhere(t *testing.T) {
	for _, side := range []struct {
		name   string
		framer func() *Framer
		frames []frame
	}{{"requests", NewRequestFramer, requests}, {"replies", NewReplyFramer, replies}} {
		t.Run(side.name, func(t *testing.T) {
			var stream strings.Builder
			for range 2 { // memory of earlier frames must not shine through
				for _, f := range side.frames {
					stream.WriteString(f.wire)
				}
			}
			want := append(side.frames[:len(side.frames):len(side.frames)], side.frames...)
			for _, size := range []int{1, 2, 3, 5, 7, 64, 1000, stream.Len()} {
				got, err := cut(side.framer(), stream.String(), size)
				if err != nil {
					t.Fatalf("pieces of %d: %v", size, err)
				}
				for i := range min(len(got), len(want)) {
					if !reflect.DeepEqual(got[i], want[i]) {
						t.Fatalf("pieces of %d, frame %d:\ngot  %.300v\nwant %.300v", size, i, got[i], want[i])
					}
				}
				if len(got) != len(want) {
					t.Fatalf("pieces of %d: %d frames, want %d", size, len(got), len(want))
				}
			}
		})
	}
}

func TestFramerIdentifies(t *testing.T) {
	for _, test := range []struct{ unknown, known string }{
		{"", "+"},
		{"", "$"},
		{"|1\r\n+a\r\n+b\r\n", "+"},
		{"*3\r\n$7\r\nmessage\r", "\n"},
		{"*2\r\n|1\r\n+a\r\n+b\r\n+message\r", "\n"},
		{"*0\r", "\n"},
		{"*1\r\n", "*1\r\n"},
	} {
		f := NewReplyFramer()
		if f.Feed([]byte(test.unknown)); f.Identified() {
			t.Errorf("identified after %q", test.unknown)
		}
		if f.Feed([]byte(test.known)); !f.Identified() {
			t.Errorf("not identified after %q", test.unknown+test.known)
		}
	}
}

func TestFramerRefuses(t *testing.T) {
	inlines := map[string]bool{"?\r\n": true, "\r\n": true, "PING\r\n": true, "+a\n": true} // fine as inline commands
	for _, wire := range hostile {
		// The framer keeps no elements, so it has no limit of elements.
		if strings.HasPrefix(wire, "*1048577") || strings.HasPrefix(wire, "%524289") {
			continue
		}
		if _, err := cut(NewReplyFramer(), wire, 7); !errors.Is(err, ErrProtocol) {
			t.Errorf("reply %.60q: %v", wire, err)
		}
		if _, err := cut(NewRequestFramer(), wire, 7); wire[0] == '*' && !inlines[wire] && !errors.Is(err, ErrProtocol) {
			t.Errorf("request %.60q: %v", wire, err)
		}
	}
	for _, wire := range []string{"*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*2\r\n*1\r\n", strings.Repeat("x", maxInline+1)} {
		f := NewRequestFramer()
		if _, err := cut(f, wire, 1000); !errors.Is(err, ErrProtocol) {
			t.Errorf("request %.60q: %v", wire, err)
		}
		if _, _, err := f.Feed([]byte("*1\r\n$4\r\nPING\r\n")); !errors.Is(err, ErrProtocol) {
			t.Errorf("after %.60q the stream cannot be trusted, but: %v", wire, err)
		}
	}
}

func FuzzFramer(f *testing.F) {
	for _, side := range [][]frame{requests, replies} {
		for _, fr := range side {
			if len(fr.wire) < 1000 {
				f.Add([]byte(fr.wire+fr.wire), uint8(3), side[0].wire == requests[0].wire)
			}
		}
	}
	for _, wire := range hostile {
		f.Add([]byte(wire), uint8(2), true)
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8, request bool) {
		make := NewReplyFramer
		if request {
			make = NewRequestFramer
		}
		// However the stream is cut, the frames are the same and cover it from the start.
		whole, errWhole := cut(make(), string(stream), len(stream)+1)
		pieces, errPieces := cut(make(), string(stream), int(size)+1)
		if !reflect.DeepEqual(whole, pieces) || (errWhole == nil) != (errPieces == nil) {
			t.Fatalf("whole: %v, %v\npieces: %v, %v", whole, errWhole, pieces, errPieces)
		}
		var joined bytes.Buffer
		for _, fr := range whole {
			joined.WriteString(fr.wire)
		}
		if !bytes.HasPrefix(stream, joined.Bytes()) {
			t.Fatalf("frames %q are no prefix of %q", joined.Bytes(), stream)
		}
	})
}

func BenchmarkFramer(b *testing.B) {
	stream := []byte("*6\r\n$3\r\nSET\r\n$12\r\n{stock}:lock\r\n$36\r\n" + bigText[:36] + "\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n")
	f := NewRequestFramer()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if n, done, err := f.Feed(stream); n != len(stream) || !done || err != nil {
			b.Fatal(n, done, err)
		}
	}
}
