package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sample touches every field of the format.
func sample() *History {
	return &History{
		Header: Header{
			Format: Format, Version: Version, Lock: "token", Guard: "none", Scenario: "gc_pause", Workload: "stock",
			Trial: 3, Seed: 42, Locks: true, Expires: true, Witnessed: true, Nodes: 1, Faulty: true,
			Clients: 2, TTL: 5e8, Margin: 7e6, Initial: 1, Amount: 1, Origin: 99,
		},
		Events: []Event{
			{Time: 1, Process: 0, Type: Invoke, Op: Acquire, Key: "{stress:1}", Hold: 1},
			{Time: 2, Process: Witness, Type: Note, Op: Exec, Key: "{stress:1}", Hold: 1, Effect: Set, TTL: 5e8, Node: "n1", Text: "SET by \"h1\"\n"},
			{Time: 3, Process: 0, Type: OK, Op: Acquire, Key: "{stress:1}", Hold: 1, Fence: 7, Deadline: 500},
			{Time: 3, Process: Nemesis, Type: Note, Op: Bite, Text: "paused wörker 0"},
			{Time: 4, Process: 0, Type: Invoke, Op: Buy, Key: "stock", Hold: 1, Value: 1, Known: true, Fence: 7},
			{Time: 5, Process: 0, Type: OK, Op: Buy, Key: "stock", Hold: 1, Value: 0, Known: true, Fence: 7},
			{Time: 6, Process: 2, Type: Note, Op: Lost, Key: "{stress:1}", Hold: 1},
			{Time: 7, Process: 0, Type: Invoke, Op: Release, Key: "{stress:1}", Hold: 1},
			{Time: 8, Process: 0, Type: Fail, Op: Release, Key: "{stress:1}", Hold: 1, Error: "not-held: deleted 0"},
			{Time: 9, Process: 1, Type: Invoke, Op: Acquire, Key: "{stress:1}", Hold: 2},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	want := sample()
	var buf bytes.Buffer
	if err := Encode(&buf, want); err != nil {
		t.Fatal(err)
	}
	got, err := Decode(bytes.NewReader(buf.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestOperations(t *testing.T) {
	ops, err := sample().Operations()
	if err != nil {
		t.Fatal(err)
	}
	if len(ops) != 4 {
		t.Fatalf("%d operations, want 4", len(ops))
	}
	if o := ops[0]; o.Outcome != OK || o.Fence != 7 || o.Deadline != 500 || o.Invoke != 1 || o.Return != 3 {
		t.Errorf("acquire: %+v", o)
	}
	if o := ops[2]; o.Outcome != Fail || o.Code != NotHeld {
		t.Errorf("release: %+v", o)
	}
	// Still open at the end: it may have happened, or may yet.
	if o := ops[3]; o.Outcome != Info || o.Return != Never || o.Last != -1 {
		t.Errorf("open acquire: %+v", o)
	}
}

func TestOperationsRefusesWhatIsNoHistory(t *testing.T) {
	for name, events := range map[string][]Event{
		"line 3: process 0 invokes release while its acquire of line 2 is open": {
			{Time: 1, Type: Invoke, Op: Acquire, Hold: 1}, {Time: 2, Type: Invoke, Op: Release, Hold: 1}},
		"line 2: process 0 completes a acquire that it did not invoke": {
			{Time: 1, Type: OK, Op: Acquire, Hold: 1}},
		"line 4: process 0 acts again after an outcome that is unknown": {
			{Time: 1, Type: Invoke, Op: Acquire, Hold: 1}, {Time: 2, Type: Info, Op: Acquire, Hold: 1}, {Time: 3, Type: Invoke, Op: Acquire, Hold: 2}},
		"line 4: hold 1 was already asked for on line 2": {
			{Time: 1, Type: Invoke, Op: Acquire, Hold: 1}, {Time: 2, Type: OK, Op: Acquire, Hold: 1}, {Time: 3, Type: Invoke, Op: Acquire, Hold: 1}},
		"line 3: time 1 is before that of the line above, 2": {
			{Time: 2, Type: Invoke, Op: Acquire, Hold: 1}, {Time: 1, Type: OK, Op: Acquire, Hold: 1}},
		"line 3: process 0 completes release  of hold 1, but the open operation, line 2, is acquire  of hold 1": {
			{Time: 2, Type: Invoke, Op: Acquire, Hold: 1}, {Time: 3, Type: OK, Op: Release, Hold: 1}},
	} {
		h := &History{Events: events}
		if _, err := h.Operations(); err == nil || err.Error() != name {
			t.Errorf("error %q, want %q", err, name)
		}
	}
}

func TestDecodeNamesTheLine(t *testing.T) {
	var buf bytes.Buffer
	if err := Encode(&buf, sample()); err != nil {
		t.Fatal(err)
	}
	whole := buf.String()
	lines := strings.SplitAfter(whole, "\n")
	for name, c := range map[string]struct{ file, want string }{
		"empty":            {"", "line 1: the file is empty"},
		"foreign JSON":     {`{"process":0}` + "\n", "line 1: not a history of stress"},
		"foreign":          {"hello\n", "line 1: not a history of stress"},
		"newer version":    {strings.Replace(whole, `"version":1`, `"version":2`, 1), "line 1: the history is of format version 2"},
		"cut at a line":    {strings.Join(lines[:5], ""), "line 6: the file is truncated"},
		"cut in a line":    {whole[:len(lines[0])+10], "line 2: not a whole JSON object"},
		"a line is gone":   {strings.Join(lines[:3], "") + strings.Join(lines[4:], ""), "the end line speaks of 10 events, the file has 9"},
		"unknown field":    {strings.Replace(whole, `"hold"`, `"hole"`, 1), `line 2: json: unknown field "hole"`},
		"unknown type":     {strings.Replace(whole, `"invoke"`, `"invokes"`, 1), `line 2: unknown type "invokes"`},
		"unknown op":       {strings.Replace(whole, `"op":"acquire"`, `"op":"acquired"`, 1), `line 2: unknown operation "acquired"`},
		"no time":          {strings.Replace(whole, `{"t":1,`, `{`, 1), `line 2: the time "t" is missing`},
		"no process":       {strings.Replace(whole, `"p":0,`, ``, 1), `line 2: the process "p" is missing`},
		"float process":    {strings.Replace(whole, `"p":0,`, `"p":0.5,`, 1), `line 2: process 0.5`},
		"two values":       {strings.Replace(whole, "}\n{\"t\":1,", "}\n{}{\"t\":1,", 1), "line 2: more than one JSON value"},
		"trailing brace":   {strings.Replace(whole, "1}\n", "1}}\n", 1), "line 2: more than one"},
		"after the end":    {whole + lines[1], "line 13: something follows the end line"},
		"binary":           {"\x00\x01\x02\x03", "line 1: not a history of stress"},
		"a line too long":  {lines[0] + strings.Repeat("x", maxLine+1), "line 2: longer than"},
		"not in time":      {strings.Replace(whole, `"t":9,`, `"t":5,`, 1), "line 11: time 5 is before"},
		"nemesis operates": {strings.Replace(whole, `"p":0,`, `"p":"nemesis",`, 1), "line 2: the nemesis writes notes only"},
	} {
		_, err := Decode(strings.NewReader(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var buf bytes.Buffer
	if err := Encode(&buf, sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add([]byte(`{"format":"lockstress-history","version":1,"clients":1}` + "\n" + `{"end":true,"events":0}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Decode(bytes.NewReader(data))
		if err != nil {
			return
		}
		// What was accepted means the same when written and read again.
		var out bytes.Buffer
		if err := Encode(&out, h); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(&out)
		if err != nil {
			t.Fatalf("our own output is refused: %v", err)
		}
		if fmt.Sprint(h.Events) != fmt.Sprint(again.Events) {
			t.Fatalf("%v became %v", h.Events, again.Events)
		}
	})
}

func TestRecorder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	r, err := Create(path, Header{Clients: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Enough to slide over several segments.
	const n = 60_000
	text := strings.Repeat("x", 150)
	for i := range n {
		if _, err := r.Record(&Event{Type: Note, Op: Sync, Text: text, Hold: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	// Before Close the file still has its unused tail, as after a SIGKILL.
	for _, closed := range []bool{false, true} {
		if closed {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		h, err := LoadJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Events) != n {
			t.Fatalf("closed=%v: %d events, want %d", closed, len(h.Events), n)
		}
		for i := range h.Events {
			if h.Events[i].Hold != int64(i+1) || i > 0 && h.Events[i].Time < h.Events[i-1].Time {
				t.Fatalf("event %d is %+v", i, h.Events[i])
			}
		}
	}
	if _, err := r.Record(&Event{Type: Note, Op: Sync}); err == nil {
		t.Error("recording into a closed journal is no error")
	}
}

func TestLoadPartsMergesWhatAKilledRunLeft(t *testing.T) {
	dir := t.TempDir()
	header := Header{Clients: 2, Seed: 5}
	a, err := Create(filepath.Join(dir, "worker-0.jsonl"), header)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Create(filepath.Join(dir, "worker-1.jsonl"), header)
	if err != nil {
		t.Fatal(err)
	}
	a.Record(&Event{Process: 0, Type: Invoke, Op: Acquire, Key: "k", Hold: 1})
	b.Record(&Event{Process: 1, Type: Invoke, Op: Acquire, Key: "k", Hold: 2})
	a.Record(&Event{Process: 0, Type: OK, Op: Acquire, Key: "k", Hold: 1})
	// Neither is closed; the second was killed while it wrote a line.
	torn, err := os.OpenFile(filepath.Join(dir, "worker-2.jsonl"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer torn.Close()
	whole, _ := os.ReadFile(filepath.Join(dir, "worker-1.jsonl"))
	torn.Write(whole[:bytes.IndexByte(whole, '\n')+1])
	torn.WriteString("{\"t\":12,\"p\":1,\"ty\x00\x00\x00")
	h, err := LoadParts(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Events) != 3 || h.Events[1].Process != 1 {
		t.Errorf("merged: %+v", h.Events)
	}
	a.Close()
	b.Close()
}

func TestProcessNumbers(t *testing.T) {
	h := Header{Clients: 3}
	seen := map[int]bool{}
	for _, role := range []Role{ClientRole, HeartbeatRole, AuditorRole} {
		for client := range 3 {
			if role == AuditorRole {
				client = -1
			}
			for generation := range 4 {
				p := h.Process(max(client, 0), role, generation)
				if c, r := h.Client(p); c != client || r != role {
					t.Errorf("process %d: client %d role %d, want %d %d", p, c, r, client, role)
				}
				if seen[p] && role != AuditorRole {
					t.Errorf("process %d is given twice", p)
				}
				seen[p] = true
			}
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	r, err := Create(filepath.Join(b.TempDir(), "journal.jsonl"), Header{Clients: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	e := Event{Process: 3, Type: OK, Op: Acquire, Key: "{stress:1}", Hold: 123456, Fence: 12, Deadline: 1234567890}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Record(&e); err != nil {
			b.Fatal(err)
		}
	}
}
