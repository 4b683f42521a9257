package history

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// maxLine bounds one line; a longer one is no history of ours.
const maxLine = 1 << 20

// MaxClients is how many clients a history may have.
const MaxClients = 1 << 20

// ErrForeign is wrapped by the error for a file that is not in our format at all.
var ErrForeign = errors.New("not a history of stress")

// Decode reads a complete history. An error names the line at fault; a file that was
// cut short is an error too.
func Decode(r io.Reader) (*History, error) {
	h, complete, err := read(r)
	switch {
	case err != nil:
		return nil, err
	case !complete:
		return nil, fmt.Errorf("line %d: the file is truncated: its last line, {\"end\":true,…}, is missing after %d events", len(h.Events)+2, len(h.Events))
	}
	if err := h.valid(); err != nil {
		return nil, err
	}
	return h, nil
}

// Load reads the history at path, which may be gzipped. A folder is read as the parts that the
// recorders of an unfinished trial left, see [LoadParts].
func Load(path string) (*History, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return LoadParts(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := decodePacked(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// decodePacked is [Decode] for a file that may be gzipped.
func decodePacked(f *os.File) (*History, error) {
	var magic [2]byte
	if n, _ := f.ReadAt(magic[:], 0); n < 2 || magic != [2]byte{0x1f, 0x8b} {
		return Decode(f)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("line 1: unpacking the file: %w", err)
	}
	return Decode(z)
}

// LoadParts merges the journals of a trial: what each recorder had written when it
// was closed, or killed.
func LoadParts(dir string) (*History, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no journals (*.jsonl) in this folder: %w", dir, ErrForeign)
	}
	slices.Sort(paths)
	var header Header
	var parts [][]Event
	for i, path := range paths {
		h, err := LoadJournal(path)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			header = h.Header
		} else if h.Header.Origin != header.Origin || h.Header.Seed != header.Seed {
			return nil, fmt.Errorf("%s: belongs to another trial than %s", path, paths[0])
		}
		parts = append(parts, h.Events)
	}
	h := Merge(header, parts...)
	if err := h.valid(); err != nil {
		return nil, fmt.Errorf("%s, merged: %w", dir, err)
	}
	return h, nil
}

// LoadJournal reads what one [Recorder] wrote. The file of a killed process ends in
// zero bytes, or in the middle of a line whose operation was then not sent.
func LoadJournal(path string) (*History, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if at := bytes.IndexByte(data, 0); at >= 0 {
		data = data[:at]
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	h, _, err := read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// read decodes lines in chunks, several at a time. It says the same of every file, line
// number included, as decoding one line after another would.
func read(r io.Reader) (h *History, complete bool, err error) {
	c := newChunks(r)
	defer c.stop()
	h = &History{}
	first, err := c.header()
	if err != nil {
		return nil, false, err
	}
	if err := decodeHeader(first, &h.Header); err != nil {
		return nil, false, fmt.Errorf("line 1: %w", err)
	}
	n := 1 // lines read
	c.start()
	for {
		part, ok := c.next()
		if !ok {
			return h, complete, nil
		}
		if complete && part.lines > 0 {
			return nil, false, fmt.Errorf("line %d: something follows the end line", n+1)
		}
		if h.Events == nil {
			h.Events = make([]Event, 0, c.expect(part))
		}
		h.Events = append(h.Events, part.events...)
		if part.ended {
			at := n + part.lines
			last := &part.last
			switch {
			case part.err != nil:
				return nil, false, fmt.Errorf("line %d: %w", at, part.err)
			case !last.End || last.Events != len(h.Events):
				return nil, false, fmt.Errorf("line %d: the end line speaks of %d events, the file has %d", at, last.Events, len(h.Events))
			case part.more:
				return nil, false, fmt.Errorf("line %d: something follows the end line", at+1)
			}
			complete = true
		} else if part.err != nil {
			return nil, false, fmt.Errorf("line %d: %w", n+part.lines, part.err)
		}
		n += part.lines
		if part.readErr != nil {
			return nil, false, fmt.Errorf("line %d: %w", n+1, part.readErr)
		}
		c.recycle(part)
	}
}

func decodeHeader(line []byte, h *Header) error {
	if err := json.Unmarshal(line, h); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	switch {
	case h.Format != Format:
		return fmt.Errorf("%w: the header says format %q, not %q", ErrForeign, h.Format, Format)
	case h.Version != Version:
		return fmt.Errorf("the history is of format version %d; this program reads version %d", h.Version, Version)
	case h.Clients < 1 || h.Clients > MaxClients:
		return fmt.Errorf("the header says %d clients", h.Clients)
	case h.Nodes < 0 || h.TTL < 0 || h.Margin < 0 || h.Amount < 0:
		return errors.New("the header has a negative number of nodes, TTL, margin or amount")
	}
	return nil
}

// wireEvent is the JSON shape of an [Event]; pointers tell absent from zero.
type wireEvent struct {
	Time     *int64 `json:"t"`
	Process  any    `json:"p"`
	Type     string `json:"type"`
	Op       Op     `json:"op"`
	Key      string `json:"key"`
	Hold     int64  `json:"hold"`
	Value    *int64 `json:"value"`
	Fence    int64  `json:"fence"`
	Deadline int64  `json:"deadline"`
	Effect   Effect `json:"effect"`
	TTL      int64  `json:"ttl"`
	Error    string `json:"error"`
	Node     string `json:"node"`
	Text     string `json:"text"`
}

var types = map[string]Type{"invoke": Invoke, "ok": OK, "fail": Fail, "info": Info, "note": Note}

// known tells which operations and subjects a version-1 history may hold: a word
// that this program does not know might change the verdict.
var known = map[Op]bool{
	Acquire: true, Extend: true, Release: true, Buy: true, Withdraw: true, Read: true,
}

var knownNotes = map[Op]bool{
	Lost: true, Sync: true, Fault: true, Heal: true, Dead: true, Bite: true, Miss: true, Exec: true, Read: true,
}

func decodeEvent(line []byte) (Event, error) {
	var w wireEvent
	if err := strict(line, &w); err != nil {
		return Event{}, err
	}
	e := Event{
		Op: w.Op, Key: w.Key, Hold: w.Hold, Fence: w.Fence, Deadline: w.Deadline,
		Effect: w.Effect, TTL: w.TTL, Error: w.Error, Node: w.Node, Text: w.Text,
	}
	if w.Time == nil {
		return e, errors.New(`the time "t" is missing`)
	}
	e.Time = *w.Time
	if w.Value != nil {
		e.Value, e.Known = *w.Value, true
	}
	var ok bool
	if e.Type, ok = types[w.Type]; !ok {
		return e, fmt.Errorf("unknown type %q", w.Type)
	}
	switch p := w.Process.(type) {
	case json.Number:
		n, err := p.Int64()
		if err != nil || n < 0 || n > 1<<53 {
			return e, fmt.Errorf("process %v is not a number from 0", p)
		}
		e.Process = int(n)
	case string:
		switch p {
		case "nemesis":
			e.Process = Nemesis
		case "witness":
			e.Process = Witness
		default:
			return e, fmt.Errorf("unknown process %q", p)
		}
		if e.Type != Note {
			return e, fmt.Errorf("the %s writes notes only, not %q", p, w.Type)
		}
	default:
		return e, errors.New(`the process "p" is missing`)
	}
	if e.Type == Note && !knownNotes[e.Op] || e.Type != Note && !known[e.Op] {
		return e, fmt.Errorf("unknown operation %q of type %s", w.Op, w.Type)
	}
	if e.Hold < 0 || e.Hold == 0 && (e.Type != Note && (e.Op == Acquire || e.Op == Extend || e.Op == Release)) {
		return e, fmt.Errorf("%s needs a hold from 1, not %d", e.Op, e.Hold)
	}
	return e, nil
}

// strict decodes one JSON value that must fill the whole line.
func strict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("not a whole JSON object")
		}
		return err
	}
	if len(bytes.TrimSpace(line[d.InputOffset():])) > 0 {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}
