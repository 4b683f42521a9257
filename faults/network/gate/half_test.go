package gate

import (
	"bytes"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// pass gives the pieces of data to a half and returns what it passes on.
func pass(h *half, data []byte, size int) []byte {
	var out []byte
	take := func() {
		for h.work(); len(h.out) > 0; h.work() {
			for _, c := range h.out {
				out = append(out, c.Data...)
			}
			h.out = nil
		}
	}
	for len(data) > 0 {
		n := min(size, len(data))
		// The half may keep slices of a piece, so it gets one of its own.
		piece := bytes.Clone(data[:n])
		data = data[n:]
		h.in = append(h.in, &stream.StreamChunk{Data: piece, Timestamp: time.Now()})
		h.inBytes += n
		take()
		for h.held != nil {
			h.letGo()
			take()
		}
	}
	h.eof = true
	take()
	return out
}

// Whatever passes, in whatever pieces, with everything held and let go in turn or
// nothing asked for at all: no byte is lost, added or moved. With replies dropped, what
// is left is made of the server's bytes in their order.
func FuzzHalf(f *testing.F) {
	commands := "*1\r\n$5\r\nMULTI\r\nGET x\r\n*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n*1\r\n$11\r\nUNSUBSCRIBE\r\n*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$7\r\nMONITOR\r\n"
	replies := "+OK\r\n$1\r\nx\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n+message\r\n+a\r\n+b\r\n|1\r\n+a\r\n+b\r\n*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n%1\r\n+a\r\n*0\r\n-ERR\r\n"
	for size := range uint8(8) {
		f.Add([]byte(commands), []byte(replies), size*3)
	}
	f.Fuzz(func(t *testing.T, commands, replies []byte, size uint8) {
		for _, order := range []string{"none", "hold", "drop"} {
			g := &gate{changed: make(chan struct{})}
			switch order {
			case "hold":
				g.addHold(HoldSpec{Commands: []string{"*", "HELLO", "CLIENT"}})
				g.addHold(HoldSpec{Commands: []string{"*", "HELLO", "CLIENT"}, Reply: true})
			case "drop":
				g.addDrop(DropSpec{Commands: []string{"*", "HELLO"}})
			}
			up, down := newHalf(g.accept(), true), newHalf(g.pair(), false)
			if got := pass(up, commands, int(size)+1); !bytes.Equal(got, commands) {
				t.Fatalf("%s: commands\n%q came out as\n%q", order, commands, got)
			}
			got := pass(down, replies, int(size)+1)
			if order != "drop" && !bytes.Equal(got, replies) {
				t.Fatalf("%s: replies\n%q came out as\n%q", order, replies, got)
			}
			rest := replies
			for _, b := range got {
				i := bytes.IndexByte(rest, b)
				if i < 0 {
					t.Fatalf("dropping from %q left %q", replies, got)
				}
				rest = rest[i+1:]
			}
		}
	})
}

func TestMatcher(t *testing.T) {
	for _, test := range []struct {
		names []string
		cmd   command
		want  bool
	}{
		{[]string{"del"}, command{name: "DEL"}, true},
		{[]string{"DEL"}, command{name: "DELETE"}, false},
		{[]string{"*"}, command{name: "EVALSHA"}, true},
		{[]string{"*"}, command{name: "HELLO"}, false},
		{[]string{"*", "hello"}, command{name: "HELLO"}, true},
		{[]string{"script load"}, command{name: "SCRIPT", args: []string{"load"}}, true},
		{[]string{"script load"}, command{name: "SCRIPT", args: []string{"EXISTS"}}, false},
		{[]string{"script load"}, command{name: "SCRIPT"}, false},
		{nil, command{name: "GET"}, false},
	} {
		if got := newMatcher(test.names).matches(test.cmd); got != test.want {
			t.Errorf("%q matches %+v: %v", test.names, test.cmd, got)
		}
	}
}
