package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstress/history"
	"lockstress/internal/redistest"
	"lockstress/results"
	"lockstress/runner"
	"lockstress/worker"
)

// TestMain lets the test binary be the command, which starts itself again as worker,
// proxy and guardian.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case runner.WorkerCommand, runner.ProxyCommand, runner.GuardianCommand:
			worker.Quiet()
			os.Exit(stress(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

// call runs the command as a user would.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = stress(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"unknown lock":     {[]string{"run", "--locks", "tokn"}, []string{`"tokn"`, "did you mean token?", "redlock"}},
		"unknown scenario": {[]string{"run", "--scenarios", "gcpause"}, []string{`"gcpause"`, "gc_pause"}},
		"unknown guard":    {[]string{"run", "--guard", "x"}, []string{`"x"`, "fenced"}},
		"unknown workload": {[]string{"run", "--workload", "x"}, []string{`"x"`, "wallet"}},
		"no trials":        {[]string{"run", "--trials", "0"}, []string{"--trials 0"}},
		"short ttl":        {[]string{"run", "--ttl", "1ms"}, []string{"--ttl 1ms"}},
		"odd ttl":          {[]string{"run", "--ttl", "100.5ms"}, []string{"whole milliseconds"}},
		"one client":       {[]string{"run", "--clients", "1"}, []string{"--clients 1"}},
		"unknown fail-on":  {[]string{"run", "--fail-on", "x"}, []string{"--fail-on x"}},
		"unknown flag":     {[]string{"run", "--trails", "1"}, []string{"--trails"}},
		"unknown command":  {[]string{"rnu"}, []string{"rnu", "run"}},
		"no file":          {[]string{"check", filepath.Join(dir, "none")}, []string{"no such file"}},
		"foreign file":     {[]string{"check", foreign}, []string{"foreign: line 1", "not a history of stress"}},
		"empty folder":     {[]string{"check", dir}, []string{"no journals"}},
		"no argument":      {[]string{"check"}, []string{"arg"}},
		"repro of nothing": {[]string{"repro", "x"}, []string{`"x"`}},
		"does not apply":   {[]string{"repro", "gc_pause", "--lock", "none"}, []string{"there is no lock that could be lost"}},
		"needs tokens":     {[]string{"repro", "gc_pause", "--guard", "fenced"}, []string{"needs fencing tokens"}},
		"no results":       {[]string{"report", dir}, []string{"results.json", "stress run"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := call(t, c.args...)
			if code != exitInput {
				t.Errorf("exit code %d, want %d", code, exitInput)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q is not in the error: %s", want, stderr)
				}
			}
		})
	}
}

func TestNoRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, _, stderr := call(t, "run", "--locks", "token", "--scenarios", "gc_pause", "--trials", "1", "--out", t.TempDir())
	if code != exitInput || !strings.Contains(stderr, "apt-get install redis-server") {
		t.Errorf("exit code %d, error %s", code, stderr)
	}
}

func TestList(t *testing.T) {
	code, text, _ := call(t, "list")
	if code != exitHolds {
		t.Fatalf("exit code %d", code)
	}
	_, asJSON, _ := call(t, "list", "--json")
	var c catalog
	if err := json.Unmarshal([]byte(asJSON), &c); err != nil {
		t.Fatal(err)
	}
	var all []entry
	for _, part := range [][]entry{c.Locks, c.Scenarios, c.Guards, c.Workloads, c.Properties} {
		if len(part) == 0 {
			t.Fatalf("a part of the list is empty: %+v", c)
		}
		all = append(all, part...)
	}
	for _, e := range all {
		if !strings.Contains(text, e.Name) || e.Summary == "" {
			t.Errorf("%+v is not described", e)
		}
	}
	var listed []string
	for _, p := range c.Properties {
		listed = append(listed, p.Name)
	}
	if strings.Join(listed, " ") != strings.Join(results.Properties, " ") {
		t.Errorf("properties listed are %v, judged are %v", listed, results.Properties)
	}
}

func TestHelpNamesTheExitCodes(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"check", "--help"}, {"repro", "--help"}} {
		code, out, _ := call(t, args...)
		if code != exitHolds || !strings.Contains(out, "3 unknown") || !strings.Contains(out, "0 holds") {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
}

// The main job, as a user sees it: run, look, check a history again, draw again.
func TestRunCheckReport(t *testing.T) {
	redistest.Need(t)
	out := t.TempDir()
	code, table, stderr := call(t, "run", "--locks", "token,fenced", "--guard", "none,fenced", "--scenarios", "gc_pause,expiry_midop",
		"--trials", "1", "--ttl", "300ms", "--out", out)
	if code != exitHolds {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"token", "gc_pause", "mutex", "oversold", "report.html"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in what was printed:\n%s", want, table)
		}
	}
	latest := filepath.Join(out, "latest")
	run, err := results.Read(filepath.Join(latest, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !run.Complete || run.Versions["redis"] == "" || run.Machine.Cores == 0 {
		t.Errorf("results: complete %v, versions %v, machine %+v", run.Complete, run.Versions, run.Machine)
	}
	codes := map[string]int{}
	for _, c := range run.Cells {
		if c.Skipped != "" {
			continue
		}
		trial := c.Trials[0]
		path := filepath.Join(latest, trial.History)
		code, text, _ := call(t, "check", path)
		codes[c.Lock+"+"+c.Guard+"/"+c.Scenario] = code
		for _, p := range trial.Properties {
			if p.Verdict == results.Violated && !strings.Contains(text, p.Reason[:20]) {
				t.Errorf("check of %s does not give the reason %q:\n%s", path, p.Reason, text)
			}
			if p.Counterexample == "" {
				continue
			}
			if code, _, stderr := call(t, "check", filepath.Join(latest, p.Counterexample)); code != exitViolated {
				t.Errorf("the counterexample %s alone: exit code %d, %s", p.Counterexample, code, stderr)
			}
		}
	}
	if codes["token+none/gc_pause"] != exitViolated {
		t.Errorf("exit codes of check: %v", codes)
	}
	_, asJSON, _ := call(t, "check", "--json", filepath.Join(latest, run.Cells[0].Trials[0].History))
	if !json.Valid([]byte(asJSON)) {
		t.Errorf("check --json: %s", asJSON)
	}
	page := filepath.Join(latest, "report.html")
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "report", latest); code != exitHolds {
		t.Errorf("report: exit code %d, %s", code, stderr)
	}
	if _, err := os.Stat(page); err != nil {
		t.Error(err)
	}
	if code, text, _ := call(t, "report", latest, "--markdown"); code != exitHolds || !strings.Contains(text, "| **token** |") {
		t.Errorf("report --markdown: exit code %d\n%s", code, text)
	}
}

func TestFailOnViolated(t *testing.T) {
	redistest.Need(t)
	code, _, stderr := call(t, "run", "--locks", "token", "--scenarios", "gc_pause", "--trials", "1", "--ttl", "300ms",
		"--out", t.TempDir(), "--fail-on", "violated", "--json")
	if code != exitViolated || !strings.Contains(stderr, "violated") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestRepro(t *testing.T) {
	redistest.Need(t)
	keep := filepath.Join(t.TempDir(), "kept")
	code, text, stderr := call(t, "repro", "gc_pause", "--lock", "token", "--ttl", "300ms", "--keep", keep)
	if code != exitViolated {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"1. +", "process stopped", "✗ mutex", "Broken: mutex"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the story:\n%s", want, text)
		}
	}
	if kept, _ := filepath.Glob(filepath.Join(keep, "histories", "*", "1.jsonl")); len(kept) != 1 {
		t.Errorf("the history was not kept: %v", kept)
	} else if _, err := history.Load(kept[0]); err != nil {
		t.Error(err)
	}
	code, text, _ = call(t, "repro", "gc_pause", "--lock", "fenced", "--guard", "fenced", "--ttl", "300ms")
	if code != exitViolated || !strings.Contains(text, "fencing token 1 is stale") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	code, text, stderr = call(t, "repro", "late_release", "--lock", "token", "--ttl", "300ms")
	if code != exitHolds || !strings.Contains(text, "Everything that applies held") {
		t.Errorf("exit code %d: %s\n%s", code, stderr, text)
	}
}
