package history

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// longHistory has n acquires and releases of one key by 16 clients, 10 % of unknown
// outcome.
func longHistory(n int) *History {
	r := rand.New(rand.NewPCG(1, 2))
	h := &History{Header: Header{
		Format: Format, Version: Version, Lock: "token", Guard: "none", Scenario: "long", Workload: "lock",
		Locks: true, Nodes: 1, Clients: 16, TTL: 5e8,
	}}
	generation := make([]int, 16)
	now, hold := int64(0), int64(0)
	add := func(e Event) {
		now += 1 + r.Int64N(20_000)
		e.Time, e.Key = now, "{stress:1}:lock"
		h.Events = append(h.Events, e)
	}
	for i := 0; i < n; i += 2 {
		client := r.IntN(16)
		p := h.Header.Process(client, ClientRole, generation[client])
		hold++
		add(Event{Process: p, Type: Invoke, Op: Acquire, Hold: hold})
		if r.IntN(10) == 0 {
			add(Event{Process: p, Type: Info, Op: Acquire, Hold: hold, Error: "unknown: i/o timeout"})
			generation[client]++
			p = h.Header.Process(client, ClientRole, generation[client])
			hold++
			add(Event{Process: p, Type: Invoke, Op: Acquire, Hold: hold})
			add(Event{Process: p, Type: Fail, Op: Acquire, Hold: hold, Error: Busy})
			continue
		}
		add(Event{Process: p, Type: OK, Op: Acquire, Hold: hold, Deadline: now + 5e8})
		add(Event{Process: p, Type: Invoke, Op: Release, Hold: hold})
		add(Event{Process: p, Type: OK, Op: Release, Hold: hold})
	}
	return h
}

// BenchmarkLoad reads 100,000 operations, 200,000 events, from the disk.
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "long.jsonl")
	if err := Save(path, longHistory(100_000)); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(path); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLine decodes one line, in the one way and the other.
func BenchmarkLine(b *testing.B) {
	e := Event{Time: 123456789012, Process: 3, Type: OK, Op: Acquire, Key: "{stress:1}", Hold: 123456, Fence: 12, Deadline: 1234567890}
	line := bytes.TrimSuffix(appendEvent(nil, &e), []byte{'\n'})
	b.Run("fast", func(b *testing.B) {
		var f fastLine
		for b.Loop() {
			if !f.decode(line, &e) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			if _, err := decodeEvent(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}
