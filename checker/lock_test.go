package checker

import (
	"strings"
	"testing"

	"lockstress/history"
	"lockstress/results"
)

const (
	holds = results.Holds
	bad   = results.Violated
	na    = results.NotApplicable
)

func TestMutexAndLease(t *testing.T) {
	forever := lockHeader
	forever.Expires, forever.TTL = false, 0
	unlocked := lockHeader
	unlocked.Locks = false
	tests := []struct {
		name   string
		header history.Header
		lines  []string
		want   verdicts
	}{
		{"one after the other", lockHeader, []string{
			"0-1 0 acquire ok h=1", "5-6 0 release ok h=1", "2-8 1 acquire ok h=2", "9-10 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"two at once", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-3 1 acquire ok h=2", "5-6 0 release ok h=1", "7-8 1 release ok h=2",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"overlap by one nanosecond", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-4 1 acquire ok h=2", "5-6 0 release ok h=1", "7-8 1 release ok h=2",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"touching at one instant", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-5 1 acquire ok h=2", "5-6 0 release ok h=1", "7-8 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"two keys", lockHeader, []string{
			"0-1 0 acquire ok h=1 k=a", "2-3 1 acquire ok h=2 k=b", "5-6 0 release ok h=1 k=a", "7-8 1 release ok h=2 k=b",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"only the second key is broken", lockHeader, []string{
			"0-1 0 acquire ok h=1 k=a", "5-6 0 release ok h=1 k=a",
			"7-8 0 acquire ok h=3 k=b", "8-9 1 acquire ok h=4 k=b", "10-12 0 release ok h=3 k=b",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"a lease is not a mutex", lockHeader, []string{ // time was up, the holder did not know
			"0-1 0 acquire ok h=1", "90-101 1 acquire ok h=2", "150-151 0 release fail h=1 e=not-held", "160-161 1 release ok h=2",
		}, verdicts{"mutex": bad, "lease": holds}},
		{"within the margin", lockHeader, []string{
			"0-1 0 acquire ok h=1", "90-95 1 acquire ok h=2", "96-97 0 release fail h=1 e=not-held",
		}, verdicts{"mutex": bad, "lease": holds}},
		{"just outside the margin", lockHeader, []string{
			"0-1 0 acquire ok h=1", "90-94 1 acquire ok h=2", "96-97 0 release fail h=1 e=not-held",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"a lock that promises less than the TTL", lockHeader, []string{
			"0-1 0 acquire ok h=1 d=50", "46-47 1 acquire ok h=2", "60-61 0 release fail h=1 e=not-held",
		}, verdicts{"mutex": bad, "lease": holds}},
		{"a promise counts from the attempt that succeeded", lockHeader, []string{ // not from the first
			"0-60 0 acquire ok h=1 d=160", "61-154 1 acquire ok h=2", "170-171 0 release fail h=1 e=not-held",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"a promise less the margin", lockHeader, []string{
			"0-60 0 acquire ok h=1 d=160", "61-155 1 acquire ok h=2", "170-171 0 release fail h=1 e=not-held",
		}, verdicts{"mutex": bad, "lease": holds}},
		{"never expires", forever, []string{
			"0-1 0 acquire ok h=1", "900-901 1 acquire ok h=2", "1000-1001 0 release ok h=1",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"extended in time", lockHeader, []string{
			"0-1 0 acquire ok h=1", "80-81 3 extend ok h=1", "150-151 1 acquire ok h=2", "160-161 0 release ok h=1",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"extension of unknown outcome protects nothing", lockHeader, []string{
			"0-1 0 acquire ok h=1", "80-82 3 extend info h=1", "150-151 1 acquire ok h=2", "160-161 0 release ok h=1",
		}, verdicts{"mutex": bad, "lease": holds}},
		{"extension that failed protects nothing", lockHeader, []string{
			"0-1 0 acquire ok h=1", "80-82 3 extend fail h=1 e=not-held", "150-151 1 acquire ok h=2", "160-161 0 release ok h=1",
		}, verdicts{"mutex": bad, "lease": holds}},
		{"extended though another was granted in between", lockHeader, []string{
			"0-1 0 acquire ok h=1", "110-111 1 acquire ok h=2", "120-121 3 extend ok h=1",
			"130-131 0 release ok h=1", "132-133 1 release ok h=2",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"extended late, nobody was harmed", lockHeader, []string{
			"0-1 0 acquire ok h=1", "190-191 3 extend ok h=1", "240-241 0 release ok h=1", "242-243 1 acquire ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"extended after the release, nobody was harmed", lockHeader, []string{
			"0-1 0 acquire ok h=1", "10-11 0 release ok h=1", "12-13 3 extend ok h=1", "14-15 1 acquire ok h=2", "16-17 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"grant answered after its time was up", lockHeader, []string{ // stopped while acquiring
			"0-200 0 acquire ok h=1", "120-121 1 acquire ok h=2", "205-206 1 release ok h=2", "300-301 0 release fail h=1 e=not-held",
		}, verdicts{"mutex": bad, "lease": holds}},
		{"slow grant inside another's lease", lockHeader, []string{
			"0-1 1 acquire ok h=2", "10-150 0 acquire ok h=1", "90-91 4 extend ok h=2", "170-171 4 extend ok h=2",
			"180-181 0 release ok h=1", "200-201 1 release ok h=2",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"acquire of unknown outcome", lockHeader, []string{
			"0-5 0 acquire info h=1", "6-7 1 acquire ok h=2", "8-9 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"release of unknown outcome", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-5 0 release info h=1", "6-7 1 acquire ok h=2", "8-9 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"release left open", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-? 0 release h=1", "6-7 1 acquire ok h=2", "8-9 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"release that was refused has been asked for all the same", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-3 0 release fail h=1 e=refused", "6-7 1 acquire ok h=2", "8-9 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"told of the loss", lockHeader, []string{
			"0-1 0 acquire ok h=1", "10 3 lost h=1", "11-12 1 acquire ok h=2", "20-21 0 release fail h=1 e=not-held",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"told of the loss too late", lockHeader, []string{
			"0-1 0 acquire ok h=1", "10-12 1 acquire ok h=2", "15 3 lost h=1", "20-21 0 release fail h=1 e=not-held", "30-31 1 release ok h=2",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"killed, and the time is up", lockHeader, []string{
			"0-1 0 acquire ok h=1", "10 n dead p=0", "99-100 1 acquire ok h=2", "120-121 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds, "progress": holds}},
		{"killed, and the time is not up", lockHeader, []string{
			"0-1 0 acquire ok h=1", "10 n dead p=0", "20-21 1 acquire ok h=2", "120-121 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": bad}},
		{"killed under a later number", lockHeader, []string{ // 0 → 7 after the unknown extension
			"0-1 0 acquire ok h=1", "2-3 0 extend info h=1", "10 n dead p=7", "105-106 1 acquire ok h=2", "120-121 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"granted just after it was noted to be killed", lockHeader, []string{
			"0-1 0 acquire fail h=9 e=busy", "10 n dead p=0", "11-12 0 acquire ok h=1", "120-121 1 acquire ok h=2", "130-131 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"killed and started again is somebody else", lockHeader, []string{
			"0-1 0 acquire ok h=1", "10 n dead p=0", "20-21 7 acquire ok h=2", "120-121 7 release ok h=2",
		}, verdicts{"mutex": holds, "lease": bad}},
		{"a re-entry is not a second holder", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-3 0 acquire ok h=2", "4-5 0 release ok h=2", "6-7 0 release ok h=1", "5-8 1 acquire ok h=3",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"granted between the releases of a re-entry", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-3 0 acquire ok h=2", "4-5 0 release ok h=2", "6-7 1 acquire ok h=3", "8-9 0 release ok h=1", "10-11 1 release ok h=3",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"slow grant inside a chain of re-entries", lockHeader, []string{ // but inside neither of them
			"0-1 1 acquire ok h=1", "60-61 1 acquire ok h=2", "10-120 0 acquire ok h=3 d=50", "130-131 0 release ok h=3",
			"150-151 1 release ok h=2", "152-153 1 release ok h=1",
		}, verdicts{"mutex": bad, "lease": bad, "progress": holds}},
		{"extended after the release, with another granted in between", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-3 0 release fail h=1 e=refused", "4-5 1 acquire ok h=2", "10-11 3 extend ok h=1", "20-21 1 release ok h=2",
		}, verdicts{"mutex": holds, "lease": bad}},
		{"extended before the grant was answered", lockHeader, []string{ // so it was held by then
			"0-120 0 acquire ok h=1", "30-31 3 extend ok h=1", "40-41 1 acquire ok h=2", "45-46 4 extend ok h=2", "200-201 1 release ok h=2",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"both believe to the end", lockHeader, []string{
			"0-1 0 acquire ok h=1", "2-3 1 acquire ok h=2", "50 n sync s=x",
		}, verdicts{"mutex": bad, "lease": bad}},
		{"granted with the last event", lockHeader, []string{ // no time left to believe in
			"0-1 0 acquire ok h=1", "90-100 1 acquire ok h=2",
		}, verdicts{"mutex": holds, "lease": holds}},
		{"no lock", unlocked, []string{"0-1 0 buy ok v=0"}, verdicts{"mutex": na, "lease": na, "progress": na, "resource": bad}},
		{"nothing at all", lockHeader, nil, verdicts{"mutex": holds, "lease": holds, "resource": na, "progress": na}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := script(t, test.header, test.lines...)
			test.want.of(t, check(t, h))
		})
	}
}

func TestNaiveReleaseOfAnothersKey(t *testing.T) {
	// A's DEL removes B's key, so C is granted the lock that B has.
	h := script(t, lockHeader,
		"0-1 0 acquire ok h=1", "101-102 1 acquire ok h=2", "110-111 0 release ok h=1",
		"112-113 2 acquire ok h=3", "130-131 1 release ok h=2", "140-141 2 release ok h=3")
	r := check(t, h)
	verdicts{"mutex": bad, "lease": bad}.of(t, r)
	figure(t, r, "lease", "overlaps", 1)
	figure(t, r, "mutex", "overlaps", 2)
	figure(t, r, "mutex", "overlap_ns", (110-102)+(130-113))
	f, _ := r.Finding("lease")
	if ops, _ := f.Cut.Operations(); len(ops) != 4 {
		t.Errorf("the cut has %d operations, not the acquires and releases of two holds\n%s", len(ops), show(f.Cut))
	}
}

func TestCutDropsExtensions(t *testing.T) {
	lines := []string{"0-1 0 acquire ok h=1", "1000-1001 1 acquire ok h=2", "1100-1101 0 release ok h=1", "1110-1111 1 release ok h=2"}
	for at := int64(50); at < 1100; at += 50 {
		lines = append(lines, strings.ReplaceAll("T-Tms 3 extend ok h=1", "Tms", itoa(at+1)))
		lines[len(lines)-1] = strings.Replace(lines[len(lines)-1], "T", itoa(at), 1)
	}
	r := check(t, script(t, lockHeader, lines...))
	f, _ := r.Finding("lease")
	if f.Verdict != bad {
		t.Fatalf("lease is %s", f.Verdict)
	}
	ops, _ := f.Cut.Operations()
	extends := 0
	for _, op := range ops {
		if op.Op == history.Extend {
			extends++
		}
	}
	if extends != 1 {
		t.Errorf("the cut keeps %d extensions; one is enough", extends)
	}
}

func TestPictures(t *testing.T) {
	header := lockHeader
	header.Fences, header.Initial, header.Amount = true, 2, 1
	h := script(t, header,
		"0-1 0 acquire ok h=1 f=7", "2-3 1 acquire ok h=2 f=7", "3 n fault n=w0 s=stopped", "3 1 sync h=2 s=acquired",
		"4-5 0 buy ok h=1 v=2", "4-5 1 buy ok h=2 v=2", "6-7 0 release ok h=1", "8-9 1 release ok h=2", "9 n heal n=w0 s=stopped")
	r := check(t, h)
	for _, name := range []string{"lease", "mutex", "resource", "fencing"} {
		f, _ := r.Finding(name)
		if f.Verdict != bad || f.Picture == nil {
			t.Errorf("%s is %s, picture: %v", name, f.Verdict, f.Picture != nil)
			continue
		}
		var page strings.Builder
		if err := f.Picture(&page); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wants := []string{"<html", "client 0", "stopped"}
		if name != "resource" {
			wants = append(wants, "acquire hold 2", "acquired")
		}
		for _, want := range wants {
			if !strings.Contains(page.String(), want) {
				t.Errorf("the picture of %s does not say %q", name, want)
			}
		}
	}
}

func TestActingAfterDeath(t *testing.T) {
	h := script(t, lockHeader, "0-1 0 acquire ok h=1", "10 n dead p=0", "5000ms-5001ms 0 acquire ok h=2")
	if _, err := Check(t.Context(), h, Options{}); err == nil || !strings.Contains(err.Error(), "new number") {
		t.Errorf("the error is %v", err)
	}
}
