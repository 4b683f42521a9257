package checker

import (
	"testing"

	"lockstress/history"
	"lockstress/results"
)

var watched = history.Header{Lock: "t", Workload: "lock", Locks: true, Expires: true, Witnessed: true, Clients: 3, Nodes: 1, TTL: 500e6, Margin: 5e6}

func TestHonesty(t *testing.T) {
	unwatched, five, clock := watched, watched, watched
	unwatched.Witnessed = false
	five.Nodes = 5
	clock.Scenario = "clock_jump"
	tests := []struct {
		name   string
		header history.Header
		lines  []string
		want   results.Verdict
		kind   string
	}{
		{"truthful", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms-12ms 0 release ok h=1", "11ms w exec n=a x=removed h=1",
		}, holds, ""},
		{"unwatched", unwatched, []string{"0-2ms 0 acquire ok h=1"}, na, ""},
		{"a witness that says nothing", watched, []string{"0-2ms 0 acquire ok h=1"}, results.Unknown, ""},
		{"acquired after the key had expired", watched, []string{
			"0-900ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "502ms w exec n=a x=expired h=1", "905ms-906ms 0 release fail h=1 e=not-held",
		}, bad, acquireLie},
		{"acquired after the key's time was up, unheard", watched, []string{
			"0-900ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "905ms-906ms 0 release fail h=1 e=not-held",
		}, bad, acquireLie},
		{"the same, where clocks are tampered with", clock, []string{
			"0-900ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "905ms-906ms 0 release fail h=1 e=not-held",
		}, holds, ""},
		{"acquired again in the same call", watched, []string{
			"0-900ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "502ms w exec n=a x=expired h=1", "899ms w exec n=a x=set h=1 t=500ms",
		}, holds, ""},
		{"the server itself had a fault", watched, []string{
			"0-900ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "100ms n fault n=a s=killed", "502ms w exec n=a x=expired h=1",
		}, holds, ""},
		{"gone on a minority", five, []string{
			"0-900ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "2ms w exec n=b x=set h=1 t=500ms", "3ms w exec n=c x=set h=1 t=500ms",
			"502ms w exec n=a x=expired h=1", "503ms w exec n=b x=expired h=1", "890ms w exec n=c x=extended h=1 t=500ms",
		}, holds, ""},
		{"gone on a majority", five, []string{
			"0-900ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "2ms w exec n=b x=set h=1 t=500ms", "3ms w exec n=c x=set h=1 t=500ms",
			"502ms w exec n=a x=expired h=1", "503ms w exec n=b x=expired h=1", "504ms w exec n=c x=expired h=1",
		}, bad, acquireLie},
		{"after a failover nothing is proved", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "5ms w exec n=a x=removed h=1", "6ms w exec n=b x=set h=2",
			"7ms-9ms 3 extend ok h=1",
		}, na, ""},
		{"extended what was gone", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "502ms w exec n=a x=expired h=1", "510ms-511ms 3 extend ok h=1",
		}, bad, extendLie},
		{"gone while the extension was under way", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "499ms-511ms 3 extend ok h=1", "502ms w exec n=a x=expired h=1",
		}, holds, ""},
		{"taken over by somebody else", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "501ms-504ms 1 acquire ok h=2", "502ms w exec n=a x=set h=2 t=500ms",
			"505ms-506ms 0 release ok h=1",
		}, bad, releaseLie},
		{"released another's key, without owner tokens", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set t=500ms", "502ms w exec n=a x=expired", "600ms-602ms 1 acquire ok h=2", "601ms w exec n=a x=set t=500ms",
			"650ms-652ms 0 release ok h=1", "651ms w exec n=a x=removed",
		}, bad, releaseLie},
		{"the same, but who set what is not clear", watched, []string{
			"0-2ms 0 acquire ok h=1", "0-602ms 1 acquire ok h=2", "1ms w exec n=a x=set t=500ms", "502ms w exec n=a x=expired", "601ms w exec n=a x=set t=500ms",
			"650ms-652ms 0 release ok h=1", "651ms w exec n=a x=removed",
		}, na, ""},
		{"removed what was its own, heard late", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms-12ms 0 release ok h=1", "13ms w exec n=a x=removed h=1",
		}, holds, ""},
		{"a second release finds the work of the first", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms-12ms 0 release info h=1", "13ms w exec n=a x=removed h=1", "20ms-21ms 7 release ok h=1",
		}, holds, ""},
		{"denied what was there", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms-12ms 0 release fail h=1 e=not-held", "502ms w exec n=a x=expired h=1",
		}, bad, denialLie},
		{"denied what may have expired, heard late", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "498ms-503ms 0 release fail h=1 e=not-held", "504ms w exec n=a x=expired h=1",
		}, holds, ""},
		{"denied what was removed, heard late", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms-12ms 0 release fail h=1 e=not-held", "13ms w exec n=a x=removed h=1",
		}, holds, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := check(t, script(t, test.header, test.lines...))
			f, _ := r.Finding("honesty")
			if f.Verdict != test.want {
				t.Fatalf("honesty is %s (%s), not %s", f.Verdict, f.Reason, test.want)
			}
			if test.kind != "" {
				figure(t, r, "honesty", test.kind, 1)
				figure(t, r, "honesty", "false_answers", 1)
			}
		})
	}
}

func TestOrphan(t *testing.T) {
	forever, five := watched, watched
	forever.Expires = false
	five.Nodes = 5
	tests := []struct {
		name   string
		header history.Header
		lines  []string
		want   results.Verdict
		ns     float64
	}{
		{"released", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms-12ms 0 release ok h=1", "13ms w exec n=a x=removed h=1", "5000ms n sync s=x",
		}, na, 0},
		{"killed, expired in time", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms n dead p=0", "510ms w exec n=a x=expired h=1", "5000ms n sync s=x",
		}, holds, 500e6},
		{"killed, and stays for ever", forever, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1", "10ms n dead p=0", "1500ms n sync s=x",
		}, bad, 1490e6},
		{"killed, and the history ends too soon to tell", forever, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1", "10ms n dead p=0", "300ms n sync s=x",
		}, holds, 290e6},
		{"killed between SETNX and EXPIRE", watched, []string{
			"0-? 0 acquire h=1", "1ms w exec n=a x=set h=1", "10ms n dead p=0", "1500ms n sync s=x",
		}, bad, 1490e6},
		{"answer lost", watched, []string{
			"0-50ms 0 acquire info h=1", "1ms w exec n=a x=set h=1 t=500ms", "502ms w exec n=a x=expired h=1", "1500ms n sync s=x",
		}, holds, 452e6},
		{"removed much too late", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "10ms n dead p=0", "1510ms w exec n=a x=expired h=1",
		}, bad, 1500e6},
		{"the server's clock went back", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "5ms n fault n=a s=clock-back", "10ms n dead p=0", "1510ms w exec n=a x=expired h=1",
		}, bad, 1500e6},
		{"the server was down", watched, []string{
			"0-2ms 0 acquire ok h=1", "1ms w exec n=a x=set h=1 t=500ms", "5ms n fault n=a s=killed", "10ms n dead p=0", "1510ms n sync s=x",
		}, results.Unknown, 1500e6},
		{"left on two of five", five, []string{
			"0-20ms 0 acquire info h=1", "1ms w exec n=a x=set h=1 t=500ms", "2ms w exec n=b x=set h=1 t=500ms", "1500ms n sync s=x",
		}, na, 0},
		{"left on three of five", five, []string{
			"0-20ms 0 acquire info h=1", "1ms w exec n=a x=set h=1 t=500ms", "2ms w exec n=b x=set h=1 t=500ms", "3ms w exec n=c x=set h=1 t=500ms",
			"501ms w exec n=a x=expired h=1", "502ms w exec n=b x=expired h=1", "503ms w exec n=c x=expired h=1",
		}, holds, 481e6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := check(t, script(t, test.header, test.lines...))
			f, _ := r.Finding("orphan")
			if f.Verdict != test.want {
				t.Fatalf("orphan is %s (%s), not %s", f.Verdict, f.Reason, test.want)
			}
			figure(t, r, "orphan", "orphan_ns", test.ns)
		})
	}
}
