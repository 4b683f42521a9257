package history

import "unicode/utf8"

// fastLine decodes lines exactly as [appendEvent] writes them: these fields, in this
// order, nothing else. For any other line it returns false, and [decodeEvent] has the
// word: it alone knows what is wrong with a line, and accepts JSON written by others.
//
// Reading is most of what a check of a long history costs; encoding/json takes some ten
// times as long.
type fastLine struct {
	// Strings that come again and again, such as keys, are kept once.
	seen map[string]string
	last string
}

func (f *fastLine) decode(b []byte, e *Event) bool {
	*e = Event{}
	var ok bool
	if b, ok = skip(b, `{"t":`); !ok {
		return false
	}
	if e.Time, b, ok = number(b); !ok {
		return false
	}
	if b, ok = skip(b, `,"p":`); !ok || len(b) == 0 {
		return false
	}
	var word []byte
	if b[0] == '"' {
		if word, b, ok = quoted(b); !ok {
			return false
		}
		switch string(word) {
		case "nemesis":
			e.Process = Nemesis
		case "witness":
			e.Process = Witness
		default:
			return false
		}
	} else {
		var p int64
		if p, b, ok = number(b); !ok || p < 0 || p > 1<<53 {
			return false
		}
		e.Process = int(p)
	}
	if b, ok = skip(b, `,"type":`); !ok {
		return false
	}
	if word, b, ok = quoted(b); !ok {
		return false
	}
	switch string(word) {
	case "invoke":
		e.Type = Invoke
	case "ok":
		e.Type = OK
	case "fail":
		e.Type = Fail
	case "info":
		e.Type = Info
	case "note":
		e.Type = Note
	default:
		return false
	}
	if b, ok = skip(b, `,"op":`); !ok {
		return false
	}
	if word, b, ok = quoted(b); !ok {
		return false
	}
	if e.Op, ok = fastOp(word, e.Type); !ok {
		return false
	}
	if e.Process < 0 && e.Type != Note {
		return false
	}
	text := func(name string, to *string) bool {
		rest, present := skip(b, name)
		if !present {
			return true
		}
		word, rest, ok := quoted(rest)
		if !ok {
			return false
		}
		b, *to = rest, f.keep(word)
		return true
	}
	integer := func(name string, to *int64) bool {
		rest, present := skip(b, name)
		if !present {
			return true
		}
		n, rest, ok := number(rest)
		if !ok {
			return false
		}
		b, *to = rest, n
		return true
	}
	var effect string
	if !text(`,"key":`, &e.Key) || !integer(`,"hold":`, &e.Hold) {
		return false
	}
	if rest, present := skip(b, `,"value":`); present {
		if e.Value, b, ok = number(rest); !ok {
			return false
		}
		e.Known = true
	}
	if !integer(`,"fence":`, &e.Fence) || !integer(`,"deadline":`, &e.Deadline) ||
		!text(`,"effect":`, &effect) || !integer(`,"ttl":`, &e.TTL) ||
		!text(`,"error":`, &e.Error) || !text(`,"node":`, &e.Node) || !text(`,"text":`, &e.Text) {
		return false
	}
	e.Effect = Effect(effect)
	if len(b) != 1 || b[0] != '}' {
		return false
	}
	needsHold := e.Type != Note && (e.Op == Acquire || e.Op == Extend || e.Op == Release)
	return e.Hold > 0 || e.Hold == 0 && !needsHold
}

func fastOp(word []byte, t Type) (Op, bool) {
	if t == Note {
		for _, op := range [...]Op{Exec, Sync, Lost, Fault, Heal, Dead, Bite, Miss, Read} {
			if string(word) == string(op) {
				return op, true
			}
		}
		return "", false
	}
	for _, op := range [...]Op{Acquire, Release, Extend, Buy, Withdraw, Read} {
		if string(word) == string(op) {
			return op, true
		}
	}
	return "", false
}

func skip(b []byte, word string) ([]byte, bool) {
	if len(b) < len(word) || string(b[:len(word)]) != word {
		return b, false
	}
	return b[len(word):], true
}

// number reads a whole number without leading zeros, of up to 18 digits.
func number(b []byte) (int64, []byte, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	n, i := int64(0), 0
	for i < len(b) && b[i]-'0' <= 9 {
		n = 10*n + int64(b[i]-'0')
		i++
		if i > 18 {
			return 0, b, false
		}
	}
	if i == 0 || b[0] == '0' && (i > 1 || negative) {
		return 0, b, false
	}
	if negative {
		n = -n
	}
	return n, b[i:], true
}

// quoted reads a string without escapes.
func quoted(b []byte) (word, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	b = b[1:]
	ascii := true
	for i, c := range b {
		switch {
		case c == '"':
			return b[:i], b[i+1:], ascii || utf8.Valid(b[:i])
		case c == '\\' || c < 0x20:
			return nil, b, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, b, false
}

func (f *fastLine) keep(word []byte) string {
	if string(word) == f.last {
		return f.last
	}
	if s, ok := f.seen[string(word)]; ok {
		f.last = s
		return s
	}
	s := string(word)
	if f.seen == nil {
		f.seen = map[string]string{}
	}
	if len(s) <= 256 && len(f.seen) < 4096 {
		f.seen[s] = s
		f.last = s
	}
	return s
}
