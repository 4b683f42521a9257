package jepsen

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstress/history"

	"olympos.io/encoding/edn"
)

// Options of a reading.
type Options struct {
	// Independent: every value is a pair of a key and the value proper, as
	// jepsen.independent writes them.
	Independent bool
	// MaxBytes bounds the file's size, unpacked; 0 means 2 GiB.
	MaxBytes int64
	// MaxOperations bounds the number of operation maps; 0 means 20 million.
	MaxOperations int
}

// ErrUnknownFormat is wrapped by the error for a file that does not begin like any of
// the formats.
var ErrUnknownFormat = errors.New("not a history in EDN or JSON")

// Load reads the file at path.
func Load(path string, o Options) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := Read(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// Read reads a history to the last byte, checks that it is one (see
// [History.Operations]), and otherwise returns an error that names the line.
func Read(r io.Reader, o Options) (*History, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 2 << 30
	}
	if o.MaxOperations <= 0 {
		o.MaxOperations = 20_000_000
	}
	in := bufio.NewReaderSize(r, 1<<16)
	packed := ""
	if magic, _ := in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("line 1: unpacking the file: %w", err)
		}
		in, packed = bufio.NewReaderSize(z, 1<<16), ", gzip"
	}
	format, err := detect(in)
	if err != nil {
		return nil, err
	}
	h := &History{Format: format + packed, Skipped: map[string]int{}}
	f := forms{in: in, json: format != "EDN", line: 1, limit: o.MaxBytes}
	decode := decodeJSON
	if !f.json {
		decode = new(ednDecoder).decode
	}
	same := map[string]string{} // one copy of each string that comes again and again
	for {
		form, line, err := f.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Total == o.MaxOperations {
			return nil, fmt.Errorf("line %d: more than %d operations, the limit", line, o.MaxOperations)
		}
		e, client, err := event(form, decode, o.Independent)
		if err != nil {
			return nil, fmt.Errorf("line %d, operation %d: %w", line, h.Total, err)
		}
		e.Position, e.Line = h.Total, line
		if e.Index < 0 {
			e.Index = int64(e.Position)
		}
		h.Total++
		if client != "" {
			if len(h.Skipped) < 1000 {
				h.Skipped[client]++
			}
			continue
		}
		for _, s := range []*string{&e.F, &e.Key, &e.Error} {
			if was, ok := same[*s]; ok {
				*s = was
			} else if len(same) < 1<<16 {
				same[*s] = *s
			}
		}
		h.Events = append(h.Events, e)
	}
	if !f.begun {
		return nil, fmt.Errorf("line %d: the file is empty: %w", f.line, ErrUnknownFormat)
	}
	if _, err := h.Operations(); err != nil {
		return nil, err
	}
	return h, nil
}

// detect tells the format from the first bytes: JSON has a quote where EDN has the
// colon of a keyword.
func detect(in *bufio.Reader) (string, error) {
	head, err := in.Peek(1 << 12)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("line 1: reading the file: %w", err)
	}
	line := 1 + bytes.Count(head[:len(head)-len(bytes.TrimLeft(head, " \t\r\n,"))], []byte{'\n'})
	rest := bytes.TrimLeft(head, " \t\r\n")
	if len(rest) == 0 {
		return "", fmt.Errorf("line %d: the file is empty: %w", line, ErrUnknownFormat)
	}
	inner := func(b []byte) []byte { return bytes.TrimLeft(b[1:], " \t\r\n") }
	format := "JSON lines"
	if rest[0] == '[' {
		format = "JSON"
		rest = inner(rest)
		if len(rest) == 0 || rest[0] != '{' {
			return "EDN", nil // also the empty vector, which is the same in both
		}
	}
	switch rest[0] {
	case '{':
		if rest = inner(rest); len(rest) > 0 && rest[0] == '"' {
			return format, nil
		}
		return "EDN", nil
	case '(', '#', ';', ',':
		return "EDN", nil
	}
	return "", fmt.Errorf("line %d: %w: it begins with %q", line, ErrUnknownFormat, head[:min(len(head), 20)])
}

// ednDecoder keeps what the library would make anew for each map.
type ednDecoder struct {
	in   *bufio.Reader
	tags *edn.TagMap
}

// decode reads the map as a vector of keys and values: a key given twice would
// otherwise go unnoticed.
func (d *ednDecoder) decode(form []byte) (fields map[string]any, err error) {
	defer func() {
		// The library recovers from what it expects; a reader of strange files
		// must survive the rest.
		if r := recover(); r != nil {
			fields, err = nil, fmt.Errorf("not EDN: %v", r)
		}
	}()
	if d.in == nil {
		d.in = bufio.NewReaderSize(nil, 1<<12)
		d.tags = &edn.TagMap{}
		// Times are of no interest, and no reason to refuse a history.
		if err := d.tags.AddTagFn("inst", func(v any) (any, error) { return v, nil }); err != nil {
			return nil, err
		}
	}
	form[0], form[len(form)-1] = '[', ']'
	d.in.Reset(bytes.NewReader(form))
	decoder := edn.NewDecoder(d.in)
	decoder.UseTagMap(d.tags)
	var list []any
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("not EDN: %w", err)
	}
	var more any
	if err := decoder.Decode(&more); err != io.EOF {
		return nil, errors.New("not EDN: the map ends before its last bracket")
	}
	if len(list)%2 != 0 {
		return nil, errors.New("not EDN: a map with a key that has no value")
	}
	fields = make(map[string]any, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		name := fieldName(list[i])
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the key %s is given twice", name)
		}
		fields[name] = list[i+1]
	}
	return fields, nil
}

func decodeJSON(form []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(form))
	d.UseNumber()
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	fields := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		name, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("not JSON: the key %v is no string", token)
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the key %q is given twice", name)
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("not JSON: the value of %q: %w", name, err)
		}
		fields[name] = fromJSON(v)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if int(d.InputOffset()) != len(form) {
		return nil, errors.New("not JSON: the object ends before its last bracket")
	}
	return fields, nil
}

var types = map[string]history.Type{"invoke": history.Invoke, "ok": history.OK, "fail": history.Fail, "info": history.Info}

// event understands one map. skipped is the process if it is no client's.
func event(form []byte, decode func([]byte) (map[string]any, error), independent bool) (e Event, skipped string, err error) {
	if !utf8.Valid(form) {
		return e, "", errors.New("not UTF-8")
	}
	fields, err := decode(form)
	if err != nil {
		return e, "", err
	}
	tuple := tagged(fields["value"])
	get := func(name string) Value { return FromEDN(fields[name]) }
	word := func(name string) (string, error) {
		s, ok := get(name).(string)
		if s = strings.TrimPrefix(s, ":"); !ok || s == "" {
			return "", fmt.Errorf(":%s is %s, not a keyword", name, Text(get(name)))
		}
		return s, nil
	}
	name, err := word("type")
	if err != nil {
		return e, "", err
	}
	var ok bool
	if e.Type, ok = types[name]; !ok {
		return e, "", fmt.Errorf("unknown :type %s (invoke, ok, fail or info)", name)
	}
	switch p := get("process").(type) {
	case int64:
		e.Process = p
	case string:
		p = strings.TrimPrefix(p, ":")
		_, number := strconv.Atoi(p)
		switch {
		case p == "nemesis":
		case p == "" || number == nil:
			return e, "", fmt.Errorf(":process is the string %q, not a number", p)
		case e.Type != history.Info:
			// Skipping a client would make a pass of what was not looked at.
			return e, "", fmt.Errorf("process %q is %s: only numbers are clients, and others write :info only", p, e.Type)
		}
		return e, strings.Clone(p[:min(len(p), 40)]), nil
	default:
		return e, "", fmt.Errorf(":process is %s, not a number", Text(p))
	}
	if e.F, err = word("f"); err != nil {
		return e, "", err
	}
	e.Value = get("value")
	switch t := get("time").(type) {
	case nil:
	case int64:
		e.Time, e.Timed = t, true
	default:
		return e, "", fmt.Errorf(":time is %s, not a whole number of nanoseconds", Text(t))
	}
	e.Index = -1
	switch n := get("index").(type) {
	case nil:
	case int64:
		if n < 0 {
			return e, "", fmt.Errorf(":index is %d", n)
		}
		e.Index = n
	default:
		return e, "", fmt.Errorf(":index is %s, not a number", Text(n))
	}
	if x := get("error"); x != nil {
		if s, ok := x.(string); ok {
			e.Error = strings.TrimPrefix(s, ":")
		} else {
			e.Error = Text(x)
		}
	}
	if independent {
		pair, ok := e.Value.([]Value)
		if !ok || len(pair) != 2 {
			return e, "", fmt.Errorf(":value is %s, not a tuple of key and value, which independent keys need", Text(e.Value))
		}
		e.Key, e.Value = Text(pair[0]), pair[1]
	} else if strings.Contains(tuple, "independent") {
		return e, "", fmt.Errorf(":value is a tuple of independent keys (#%s): read the file with --independent", tuple)
	}
	return e, "", nil
}

func tagged(v any) string {
	if t, ok := v.(edn.Tag); ok {
		return t.Tagname
	}
	return ""
}
