package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzLine: whatever the fast decoder accepts, encoding/json reads the same way.
func FuzzLine(f *testing.F) {
	for _, e := range sample().Events {
		f.Add(bytes.TrimSuffix(appendEvent(nil, &e), []byte{'\n'}))
	}
	f.Add([]byte(`{"t":-5,"p":"witness","type":"note","op":"exec","hold":0,"value":-1,"effect":"set","ttl":0,"text":"ö"}`))
	f.Add([]byte(`{"t":00,"p":-1,"type":"ok","op":"read"}`))
	f.Fuzz(func(t *testing.T, line []byte) { sameLine(t, line) })
}

func sameLine(t *testing.T, line []byte) (fast bool) {
	t.Helper()
	var e Event
	if bytes.ContainsAny(line, "\n") || !new(fastLine).decode(line, &e) {
		return false
	}
	want, err := decodeEvent(line)
	if err != nil {
		t.Fatalf("accepted, but %v: %s", err, line)
	}
	if e != want {
		t.Fatalf("%s\nis %+v\nnot %+v", line, e, want)
	}
	return true
}

// TestFastLineIsUsed: our own lines do not go the slow way, unless a string needs an
// escape.
func TestFastLineIsUsed(t *testing.T) {
	for _, e := range append(sample().Events, longHistory(100).Events...) {
		line := bytes.TrimSuffix(appendEvent(nil, &e), []byte{'\n'})
		if !sameLine(t, line) && !strings.Contains(e.Text, `"`) {
			t.Errorf("not decoded: %s", line)
		}
	}
}

// oneByOne reads lines one after another: what [read] does, said simply.
func oneByOne(r io.Reader) (h *History, complete bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	n := 0
	h = &History{}
	for lines.Scan() {
		n++
		line := lines.Bytes()
		switch {
		case n == 1:
			if err := decodeHeader(line, &h.Header); err != nil {
				return nil, false, fmt.Errorf("line 1: %w", err)
			}
		case complete:
			return nil, false, fmt.Errorf("line %d: something follows the end line", n)
		case bytes.HasPrefix(line, []byte(`{"end":`)):
			var last end
			if err := strict(line, &last); err != nil {
				return nil, false, fmt.Errorf("line %d: %w", n, err)
			}
			if !last.End || last.Events != len(h.Events) {
				return nil, false, fmt.Errorf("line %d: the end line speaks of %d events, the file has %d", n, last.Events, len(h.Events))
			}
			complete = true
		default:
			e, err := decodeEvent(line)
			if err != nil {
				return nil, false, fmt.Errorf("line %d: %w", n, err)
			}
			h.Events = append(h.Events, e)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, false, fmt.Errorf("line %d: longer than %d bytes: %w", n+1, maxLine, ErrForeign)
	case err != nil:
		return nil, false, fmt.Errorf("line %d: %w", n+1, err)
	case n == 0:
		return nil, false, fmt.Errorf("line 1: the file is empty: %w", ErrForeign)
	}
	return h, complete, nil
}

// sameFile compares the two readers on a file.
func sameFile(t *testing.T, data []byte) {
	t.Helper()
	h, complete, err := read(bytes.NewReader(data))
	want, wantComplete, wantErr := oneByOne(bytes.NewReader(data))
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || complete != wantComplete {
		t.Fatalf("complete %v, %v\nwant     %v, %v\nof %.300q", complete, err, wantComplete, wantErr, data)
	}
	if errors.Is(err, ErrForeign) != errors.Is(wantErr, ErrForeign) {
		t.Fatalf("%v is foreign: %v, want %v", err, errors.Is(err, ErrForeign), errors.Is(wantErr, ErrForeign))
	}
	if err == nil && (!reflect.DeepEqual(h.Header, want.Header) || !equalEvents(h.Events, want.Events)) {
		t.Fatalf("the events differ, of %.300q", data)
	}
}

func equalEvents(a, b []Event) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestChunksAtTheirEdges: lines that end where a chunk ends, or nearly, and lines as long
// as they may be or longer.
func TestChunksAtTheirEdges(t *testing.T) {
	var buf bytes.Buffer
	if err := Encode(&buf, sample()); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := bytes.Cut(buf.Bytes(), []byte{'\n'})
	head = append(head[:len(head):len(head)], '\n')
	note := func(length int) []byte {
		line := []byte(`{"t":0,"p":0,"type":"note","op":"sync","text":"`)
		return append(append(line, bytes.Repeat([]byte{'x'}, length-len(line)-2)...), `"}`...)
	}
	for _, length := range []int{chunkSize - len(head) - 1, chunkSize - len(head), chunkSize - 1, chunkSize, 2*chunkSize + 5} {
		for _, end := range []string{"\n", "\r\n", ""} {
			for _, after := range [][]byte{rest, nil, append(note(chunkSize-1), "\nx\n"...)} {
				data := append(append(append(bytes.Clone(head), note(length)...), end...), after...)
				sameFile(t, data)
			}
		}
	}
	sameFile(t, nil)
	sameFile(t, []byte("\n"))
	sameFile(t, bytes.Repeat([]byte{'x'}, chunkSize))
	sameFile(t, append(bytes.Repeat([]byte{' '}, chunkSize-1-len(head)), head...))
}

func TestLongFile(t *testing.T) {
	var buf bytes.Buffer
	if err := Encode(&buf, longHistory(20_000)); err != nil {
		t.Fatal(err)
	}
	if buf.Len() < 3*chunkSize {
		t.Fatalf("%d bytes are not several chunks", buf.Len())
	}
	sameFile(t, buf.Bytes())
	data := buf.Bytes()
	// An error far behind, with others behind it.
	at := bytes.LastIndex(data[:len(data)/2], []byte(`"op"`))
	copy(data[at:], `"oo"`)
	copy(data[at+3*chunkSize/2:], `}}}}`)
	sameFile(t, data)
	// The same for a reader that gives a little at a time, and for one that fails.
	_, _, want := oneByOne(bytes.NewReader(data))
	if _, _, err := read(iotest.HalfReader(bytes.NewReader(data))); err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
	broken := io.MultiReader(bytes.NewReader(data[:at-1000]), iotest.ErrReader(errors.New("the disk is gone")))
	if _, _, err := read(broken); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("error %v", err)
	}
	before := runtime.NumGoroutine()
	for range 20 {
		read(bytes.NewReader(data))
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}

// mutations is how many random mutations a test makes of valid files.
func mutations(t *testing.T) int {
	n := 3000
	if s := os.Getenv("STRESS_MUTATIONS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestMutations: a damaged file is read whole or refused, and the fast reader and the
// slow one agree on it, error by error.
func TestMutations(t *testing.T) {
	var files [][]byte
	for _, h := range []*History{sample(), longHistory(40)} {
		var buf bytes.Buffer
		if err := Encode(&buf, h); err != nil {
			t.Fatal(err)
		}
		files = append(files, buf.Bytes())
	}
	r := rand.New(rand.NewPCG(8, 9))
	accepted := 0
	for range mutations(t) {
		data := mutate(r, files[r.IntN(len(files))])
		sameFile(t, data)
		h, err := Decode(bytes.NewReader(data))
		if err != nil {
			continue
		}
		accepted++
		// Nothing of the file is missing: header, events, end line.
		if lines := bytes.Count(bytes.TrimRight(data, "\n"), []byte{'\n'}) + 1; lines != len(h.Events)+2 {
			t.Fatalf("%d events of %d lines: %q", len(h.Events), lines, data)
		}
	}
	t.Logf("%d of %d mutations are histories all the same", accepted, mutations(t))
}

// mutate damages a file in one to three places.
func mutate(r *rand.Rand, file []byte) []byte {
	data := bytes.Clone(file)
	for range 1 + r.IntN(3) {
		if len(data) == 0 {
			break
		}
		at := r.IntN(len(data))
		to := min(len(data), at+1+r.IntN(1+r.IntN(100)))
		switch r.IntN(7) {
		case 0: // cut
			data = data[:at]
		case 1: // a piece is gone
			data = append(data[:at:at], data[to:]...)
		case 2: // a piece is there twice
			data = append(data[:to:to], data[at:]...)
		case 3: // a bit
			data[at] ^= 1 << r.IntN(8)
		case 4: // another byte, of those that mean something
			const bytes = "{}[]\",:0123456789-\\;#nt\n\x00\xff"
			data[at] = bytes[r.IntN(len(bytes))]
		case 5: // a line is gone
			lines := bytes.SplitAfter(data, []byte{'\n'})
			i := r.IntN(len(lines))
			data = bytes.Join(append(lines[:i:i], lines[i+1:]...), nil)
		case 6: // two lines change places
			lines := bytes.SplitAfter(data, []byte{'\n'})
			i, j := r.IntN(len(lines)), r.IntN(len(lines))
			lines[i], lines[j] = lines[j], lines[i]
			data = bytes.Join(lines, nil)
		}
	}
	return data
}
