package checker

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstress/history"
	"lockstress/results"
)

// script makes a history of lines such as
//
//	0-10 0 acquire ok h=1 k=a       an operation of process 0 and its interval
//	0-? 0 acquire h=1               one left open
//	12 n dead p=0                   a note of the nemesis; w: of the witness
//
// Fields: h hold, k key, v value, f fence, d deadline, e error, n node, x effect,
// t TTL, p process, s text.
func script(t testing.TB, header history.Header, lines ...string) *history.History {
	t.Helper()
	h := &history.History{Header: header}
	for _, line := range lines {
		f := strings.Fields(line)
		e := history.Event{Key: "k"}
		var kind, outcome string
		switch f[1] {
		case "n":
			e.Process = history.Nemesis
		case "w":
			e.Process = history.Witness
		default:
			e.Process = number[int](t, f[1])
		}
		kind = f[2]
		for _, field := range f[3:] {
			name, value, ok := strings.Cut(field, "=")
			if !ok {
				outcome = field
				continue
			}
			switch name {
			case "h":
				e.Hold = number[int64](t, value)
			case "k":
				e.Key = value
			case "v":
				e.Value, e.Known = number[int64](t, value), true
			case "f":
				e.Fence = number[int64](t, value)
			case "d":
				e.Deadline = number[int64](t, value)
			case "e":
				e.Error = value
			case "n":
				e.Node = value
			case "x":
				e.Effect = history.Effect(value)
			case "t":
				e.TTL = number[int64](t, value)
			case "p":
				e.Process = number[int](t, value)
			case "s":
				e.Text = value
			default:
				t.Fatalf("script %q: field %q", line, field)
			}
		}
		e.Op = history.Op(kind)
		from, to, isOp := strings.Cut(f[0], "-")
		e.Time = number[int64](t, from)
		if !isOp {
			e.Type = history.Note
			h.Events = append(h.Events, e)
			continue
		}
		invoke := history.Event{Time: e.Time, Process: e.Process, Type: history.Invoke, Op: e.Op, Key: e.Key, Hold: e.Hold}
		h.Events = append(h.Events, invoke)
		if to == "?" {
			continue
		}
		e.Time = number[int64](t, to)
		e.Type = map[string]history.Type{"ok": history.OK, "fail": history.Fail, "info": history.Info}[outcome]
		if e.Type == 0 {
			t.Fatalf("script %q: no outcome", line)
		}
		h.Events = append(h.Events, e)
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(a.Time - b.Time) })
	return h
}

func number[N int | int64](t testing.TB, s string) N {
	t.Helper()
	scale := int64(1)
	if rest, ok := strings.CutSuffix(s, "ms"); ok {
		s, scale = rest, 1e6
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatalf("script: %v", err)
	}
	return N(n * scale)
}

// check judges h and sees to what must be so of every report.
func check(t testing.TB, h *history.History) *Report {
	t.Helper()
	r, err := Check(t.Context(), h, Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, show(h))
	}
	for i, f := range r.Findings {
		if f.Name != results.Properties[i] {
			t.Fatalf("finding %d is on %q, not %q", i, f.Name, results.Properties[i])
		}
		if strings.Contains(f.Reason, "disagree") {
			t.Fatalf("%s: %s\n%s", f.Name, f.Reason, show(h))
		}
		if f.Verdict != results.Violated {
			if f.Cut != nil || f.Picture != nil {
				t.Fatalf("%s is %s, with a counterexample", f.Name, f.Verdict)
			}
			continue
		}
		if f.Reason == "" {
			t.Fatalf("%s is violated without a reason", f.Name)
		}
		checkCut(t, h, f)
	}
	return r
}

// checkCut: a cut is a history that can be saved, read back and judged, with the same
// verdict, and is a part of the whole.
func checkCut(t testing.TB, whole *history.History, f Finding) {
	t.Helper()
	if f.Cut == nil {
		t.Fatalf("%s is violated without a counterexample\n%s", f.Name, show(whole))
	}
	if _, err := f.Cut.Operations(); err != nil {
		t.Fatalf("the cut of %s is no history: %v\n%s", f.Name, err, show(f.Cut))
	}
	var file strings.Builder
	if err := history.Encode(&file, f.Cut); err != nil {
		t.Fatal(err)
	}
	back, err := history.Decode(strings.NewReader(file.String()))
	if err != nil {
		t.Fatalf("the cut of %s cannot be read back: %v", f.Name, err)
	}
	r, err := Check(t.Context(), back, Options{})
	if err != nil {
		t.Fatalf("judging the cut of %s: %v", f.Name, err)
	}
	if again, _ := r.Finding(f.Name); again.Verdict != results.Violated {
		t.Fatalf("%s: the whole is violated (%s), its cut is %s (%s)\nwhole:\n%s\ncut:\n%s",
			f.Name, f.Reason, again.Verdict, again.Reason, show(whole), show(f.Cut))
	}
	if len(f.Cut.Events) > len(whole.Events)+1 {
		t.Fatalf("the cut of %s is larger than the whole", f.Name)
	}
}

func show(h *history.History) string {
	var b strings.Builder
	history.Encode(&b, h)
	return b.String()
}

// verdicts says which verdicts a table entry expects; what it does not name must not
// be violated or unknown.
type verdicts map[string]results.Verdict

func (want verdicts) of(t *testing.T, r *Report) {
	t.Helper()
	for _, f := range r.Findings {
		w, named := want[f.Name]
		switch {
		case named && f.Verdict != w:
			t.Errorf("%s is %s (%s), not %s", f.Name, f.Verdict, f.Reason, w)
		case !named && (f.Verdict == results.Violated || f.Verdict == results.Unknown):
			t.Errorf("%s is %s: %s", f.Name, f.Verdict, f.Reason)
		}
	}
}

var lockHeader = history.Header{Lock: "t", Workload: "lock", Locks: true, Expires: true, Clients: 3, Nodes: 1, TTL: 100, Margin: 5}

func figure(t *testing.T, r *Report, property, name string, want float64) {
	t.Helper()
	f, _ := r.Finding(property)
	if got, ok := f.Figures[name]; !ok || got != want {
		t.Errorf("%s: %s is %v (there: %v), not %v", property, name, got, ok, want)
	}
}
