package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendEvent appends e as one JSON line. It is written out by hand because it runs
// between a client and the operation it measures: no allocation, no reflection.
func appendEvent(b []byte, e *Event) []byte {
	b = append(b, `{"t":`...)
	b = strconv.AppendInt(b, e.Time, 10)
	b = append(b, `,"p":`...)
	switch e.Process {
	case Nemesis:
		b = append(b, `"nemesis"`...)
	case Witness:
		b = append(b, `"witness"`...)
	default:
		b = strconv.AppendInt(b, int64(e.Process), 10)
	}
	b = append(b, `,"type":"`...)
	b = append(b, e.Type.String()...)
	b = append(b, `","op":`...)
	b = appendString(b, string(e.Op))
	if e.Key != "" {
		b = append(b, `,"key":`...)
		b = appendString(b, e.Key)
	}
	b = appendInt(b, `,"hold":`, e.Hold, e.Hold != 0)
	b = appendInt(b, `,"value":`, e.Value, e.Known)
	b = appendInt(b, `,"fence":`, e.Fence, e.Fence != 0)
	b = appendInt(b, `,"deadline":`, e.Deadline, e.Deadline != 0)
	if e.Effect != "" {
		b = append(b, `,"effect":`...)
		b = appendString(b, string(e.Effect))
	}
	b = appendInt(b, `,"ttl":`, e.TTL, e.TTL != 0)
	if e.Error != "" {
		b = append(b, `,"error":`...)
		b = appendString(b, e.Error)
	}
	if e.Node != "" {
		b = append(b, `,"node":`...)
		b = appendString(b, e.Node)
	}
	if e.Text != "" {
		b = append(b, `,"text":`...)
		b = appendString(b, e.Text)
	}
	return append(b, '}', '\n')
}

func appendInt(b []byte, name string, v int64, meant bool) []byte {
	if !meant {
		return b
	}
	return strconv.AppendInt(append(b, name...), v, 10)
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, `\ufffd`...) // JSON is UTF-8 or nothing
			} else {
				b = append(b, s[i:i+size]...)
			}
			i += size
			continue
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}

// end is the last line of a complete history: without it, a reader could not tell a
// whole file from one that was cut at the end of a line.
type end struct {
	End    bool `json:"end"`
	Events int  `json:"events"`
}

// Encode writes h in the format of docs/history-format.md.
func Encode(w io.Writer, h *History) error {
	out := bufio.NewWriterSize(w, 1<<16)
	header := h.Header
	header.Format, header.Version = Format, Version
	if err := writeLine(out, header); err != nil {
		return err
	}
	var line []byte
	for i := range h.Events {
		line = appendEvent(line[:0], &h.Events[i])
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	if err := writeLine(out, end{true, len(h.Events)}); err != nil {
		return err
	}
	return out.Flush()
}

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Save writes h to path, gzipped if the name ends in .gz; the file appears whole or not
// at all.
func Save(path string, h *History) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	if err := encodePacked(f, h, strings.HasSuffix(path, ".gz")); err != nil {
		f.Close()
		return fmt.Errorf("writing history %s: %w", path, err)
	}
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func encodePacked(w io.Writer, h *History, pack bool) error {
	if !pack {
		return Encode(w, h)
	}
	z := gzip.NewWriter(w)
	if err := Encode(z, h); err != nil {
		return err
	}
	return z.Close()
}

// Merge puts the events of several recorders of one trial in the order of their
// times. Events of one recorder with equal times keep their order.
func Merge(header Header, parts ...[]Event) *History {
	all := slices.Concat(parts...)
	slices.SortStableFunc(all, func(a, b Event) int {
		switch {
		case a.Time < b.Time:
			return -1
		case a.Time > b.Time:
			return 1
		}
		return 0
	})
	return &History{Header: header, Events: all}
}
