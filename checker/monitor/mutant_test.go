package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var mutants = flag.Bool("mutants", false, "check that the tests catch faults in the monitors (minutes)")

// mutant is a fault: one changed comparison or dropped case.
type mutant struct{ file, right, wrong string }

var faults = []mutant{
	{"tenure.go", "u.end1 > u.start2:", "u.end1 >= u.start2:"},
	{"tenure.go", "u.start2 < Never && u.start2 < u.start1:", "false:"},
	{"tenure.go", "case u.end2 < u.end1:", "case false:"},
	{"tenure.go", "if e.released >= 0 {\n\t\t\t\treturn nil, illegal", "if false {\n\t\t\t\treturn nil, illegal"},
	{"tenure.go", "e.maybe = min(e.maybe, op.Invoke)", "e.maybe = Never"},
	{"tenure.go", "e.maybe = min(e.maybe, op.Invoke)", "e.maybe = op.Invoke"},
	{"tenure.go", "e.lasts = max(e.lasts, op.Invoke)", "e.lasts = op.Invoke"},
	{"tenure.go", "e.extended = int32(i)", "_ = i"},
	{"tenure.go", "lasts := max(u.start1, e.lasts)", "lasts := u.start1"},
	{"tenure.go", "u.end1, u.end2 = max(lasts, r.Invoke), r.Return", "u.end1, u.end2 = r.Invoke, r.Return"},
	{"tenure.go", "u.end1, u.end2 = max(lasts, r.Invoke), r.Return", "u.end1, u.end2 = max(lasts, r.Invoke), Never"},
	{"tenure.go", "e.expires = max(e.expires, lease.earliest(op))", "e.expires = lease.earliest(op)"},
	{"tenure.go", "u.end1 = max(lasts, min(e.maybe, e.expires))", "u.end1 = max(lasts, e.expires)"},
	{"tenure.go", "u.end1 = max(lasts, min(e.maybe, e.expires))", "u.end1 = max(lasts, e.maybe)"},
	{"tenure.go", "u.end1 = max(lasts, min(e.maybe, e.expires))", "u.end1 = min(e.maybe, e.expires)"},
	{"tenure.go", "bound, expires = Never, max(expires, stretched)", "bound = Never"},
	{"lock.go", "after(op.Deadline, -r.Margin)", "after(op.Deadline, r.Margin)"},
	{"lock.go", "return op.Outcome == OK && op.Deadline != 0", "return op.Deadline != 0"},
	{"lock.go", "end = max(end, op.Deadline)", ""},
	{"lock.go", "after(op.Invoke, r.TTL-r.Margin)", "after(op.Invoke, r.TTL+r.Margin)"},
	{"tenure.go", "t.forever = min(t.forever, max(u.start1, u.declined))", "t.forever = min(t.forever, u.start1)"},
	{"tenure.go", "t.forever = min(t.forever, max(u.start1, u.declined))", ""},
	{"tenure.go", "event{max(u.end1, u.declined), h, interchanging}", "event{u.end1, h, interchanging}"},
	{"tenure.go", "event{max(u.end1, u.declined), h, interchanging}", "event{max(u.start1, u.declined), h, interchanging}"},
	{"tenure.go", "if u.acquire < 0 || e.acquireFails {", "if u.acquire < 0 {"},
	{"tenure.go", "u.declined = max(u.declined, op.Invoke)", "u.declined = op.Invoke"},
	{"tenure.go", "if moment <= bound {", "if moment < bound {"},
	{"tenure.go", "if unsure > bound {\n\t\t\treturn false", "if unsure >= bound {\n\t\t\treturn false"},
	{"tenure.go", "bound = max(bound, rules.latest(op))", "bound = rules.latest(op)"},
	{"tenure.go", "u.end2 = min(u.end2, bound)", ""},
	{"tenure.go", "min(byRelease, max(expires, stretched))", "max(expires, stretched)"},
	{"tenure.go", "again > bound {", "false {"},
	{"tenure.go", "now > g.from && now < g.to", "now >= g.from && now < g.to"},
	{"tenure.go", "now > g.from && now < g.to", "now > g.from && now <= g.to"},
	{"tenure.go", "if now < t.all[h].end1 {", "if now <= t.all[h].end1 {"},
	{"tenure.go", "c != absent && c != forever", "c == fixed"},
	{"sweep.go", "if !s.canEnd(c.holder, now) {\n\t\t\t\tcontinue\n\t\t\t}", ""},
	{"sweep.go", "c.holder, c.since = h, now\n\t\t}\n\t\ts.after", "c.holder = h\n\t\t}\n\t\ts.after"},
	{"sweep.go", "u.end1 <= c.since {", "u.end1 < c.since {"},
	{"sweep.go", "if c.holder != nobody && u.end1 <= c.since {", "if false {"},
	{"sweep.go", "if s.canEnd(c.holder, now) {", "if c.holder == nobody {"},
	{"sweep.go", "c.begun &^= bit\n\t\t\ts.after = append(s.after, c)\n\t\t\tcontinue", "continue"},
	{"sweep.go", "if c.holder == h {\n\t\t\tc.holder, c.since = nobody, now\n\t\t}", ""},
	{"sweep.go", "if c.holder == h {\n\t\t\tc.holder, c.since = nobody, now\n\t\t\ts.after", "if false {\n\t\t\ts.after"},
	{"sweep.go", "if c.begun&bit == 0 {\n\t\t\tc.spare++\n\t\t}", "c.spare++"},
	{"sweep.go", "c.holder != nobody || c.since >= invoked", "c.holder != nobody || c.since > invoked"},
	{"sweep.go", "c.holder != nobody || c.since >= invoked", "c.holder != nobody"},
	{"sweep.go", "if s.all[ev.ref].start1 <= now {", "if s.all[ev.ref].start1 < now {"},
	{"sweep.go", "if c.spare > 0 {\n\t\t\tbegin(anybody).spare--", "if c.spare > 0 {\n\t\t\tbegin(anybody)"},
	{"sweep.go", "u.end1 > due {", "u.end1 >= due {"},
	{"sweep.go", "c.begun&u.bit() != 0 ||", ""},
	{"sweep.go", "u.class == phantom && c.spare > 0 && u.declined <= u.end1", "u.class == phantom && c.spare > 0"},
	{"sweep.go", "begin(h).begun |= u.bit()", "begin(h)"},
	{"sweep.go", "s.forever <= now && due == Never", "s.forever < now && due == Never"},
	{"sweep.go", "s.forever <= now && due == Never", "false"},
	{"sweep.go", "c.holder == h && c.since < invoked", "c.holder == h"},
	{"sweep.go", "if !s.endable(h, now) {\n\t\t\t\tcontinue\n\t\t\t}", ""},
	{"sweep.go", "case somebody:\n\t\treturn false", "case somebody:\n\t\treturn true"},
	{"sweep.go", ".start1 <= now {\n\t\th :=", ".start1 < now {\n\t\th :="},
	{"sweep.go", "c.holder == d.holder &&", ""},
	{"sweep.go", "&& c.begun&^d.begun == 0", ""},
	{"sweep.go", "&& c.since >= d.since", ""},
	{"sweep.go", "&& c.spare >= d.spare", ""},
	{"sweep.go", "s.next = max(s.next, s.event)", ""},
	{"stock.go", "c.gone > rank && c.at[rank] < op.Invoke", "c.gone > rank && c.at[rank] <= op.Invoke"},
	{"stock.go", "c.gone > rank && c.at[rank] < op.Invoke", "c.gone > rank"},
	{"stock.go", "case c.gone >= c.units:", "case c.gone > c.units:"},
	{"stock.go", "if c.ops[by].Invoke > now {", "if c.ops[by].Invoke >= now {"},
	{"stock.go", "if c.ops[by].Invoke > now {", "if false {"},
	{"stock.go", "c.calls[0].time <= now {", "c.calls[0].time < now {"},
	{"stock.go", "c.unsure--", ""},
	{"stock.go", "c.done[c.open[0].op]", "false"},
	{"stock.go", "for c.gone <= rank {", "for c.gone < rank {"},
	{"stock.go", "for c.gone < rank {", "for c.gone <= rank {"},
	{"stock.go", "case op.Outcome == Fail && rank != c.units:", "case false:"},
	{"stock.go", "other != 0 {", "false {"},
	{"stock.go", "case !whole || rank < 0 || rank > c.units:", "case !whole || rank > c.units:"},
	{"stock.go", "c.rank[i] = c.units", "continue"},
	{"stock.go", "spent%amount == 0", "true"},
	{"stock.go", "len(c.open) > 0:", "c.unsure > 0 && len(c.open) > 0:"},
	{"semaphore.go", "calls[0].time <= must.time", "calls[0].time < must.time"},
	{"semaphore.go", "kind == Release && taken == 0", "false"},
	{"semaphore.go", "o.unsure--", ""},
	{"semaphore.go", "if done[must.ref] {\n\t\t\tcontinue\n\t\t}", ""},
	{"semaphore.go", "s[i].time < s[j].time", "s[i].time > s[j].time"},
	{"fencing.go", "d.open[0].Return < g.Invoke", "d.open[0].Return <= g.Invoke"},
	{"fencing.go", "d.index < 0 || was.Token > d.newest", "true"},
	{"fencing.go", "d.open[i].Token == g.Token", "false"},
	{"fencing.go", "r[i].Return < r[j].Return", "r[i].Return > r[j].Return"},
	{"fencing.go", "if u.class != fixed {", "if false {"},
	{"fencing.go", "all[a.acquire].token >= all[b.acquire].token", "false"},
	{"overlap.go", "b.From < was.To &&", "b.From <= was.To &&"},
	{"overlap.go", "&& b.To > was.From", ""},
	{"overlap.go", "b.To > was.To ||", "true ||"},
	{"overlap.go", "!ok || op.Invoke < was", "!ok || op.Invoke > was"},
	{"overlap.go", "to = min(to, at)", "to = at"},
	{"overlap.go", "max(to, op.Invoke)", "to"},
	{"partition.go", "if v.Result == Illegal {\n\t\t\treturn v\n\t\t}", ""},
	{"radix.go", "count[d] = sum\n\t\t\tsum += n", "sum += n\n\t\t\tcount[d] = sum"},
}

// TestMutants plants each fault in a copy of the source and runs this package's other
// tests on it. -run 'TestMutants/^17$' tries one.
func TestMutants(t *testing.T) {
	if !*mutants {
		t.Skip("takes minutes; run with -mutants")
	}
	ran, survived := 0, 0
	for i, m := range faults {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			caught, err := m.caught(t)
			if err != nil {
				t.Fatal(err)
			}
			ran++
			verdict := "caught"
			if !caught {
				verdict = "SURVIVED"
				survived++
			}
			fmt.Printf("%3d  %-8s  %-13s %q → %q\n", i+1, verdict, m.file, m.right, m.wrong)
		})
	}
	fmt.Printf("%d of %d caught\n", ran-survived, ran)
	if survived*20 > ran {
		t.Errorf("%d of %d faults survived: more than 5 %%", survived, ran)
	}
}

func (m mutant) caught(t *testing.T) (bool, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return false, err
	}
	if n := strings.Count(string(source), m.right); n != 1 {
		return false, fmt.Errorf("%s: %q occurs %d times, want once", m.file, m.right, n)
	}
	dir := t.TempDir()
	planted := filepath.Join(dir, m.file)
	if err := os.WriteFile(planted, []byte(strings.Replace(string(source), m.right, m.wrong, 1)), 0o600); err != nil {
		return false, err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return false, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: planted}})
	if err != nil {
		return false, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return false, err
	}
	binary := filepath.Join(dir, "faulty.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", list, "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		return false, fmt.Errorf("the fault %q → %q in %s does not compile, so it is none: %w\n%s", m.right, m.wrong, m.file, err, out)
	}
	// A fault that makes the sweep go on for ever is caught too.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.skip", "TestMutants")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, fmt.Errorf("running the tests on %q → %q: %w", m.right, m.wrong, err)
	}
	return err != nil, nil
}
