package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lockstress/history"
)

const twoHolders = `{"process":0,"type":"invoke","f":"acquire","value":null,"time":0}
{"process":0,"type":"ok","f":"acquire","value":null,"time":1000000000}
{"process":"nemesis","type":"info","f":"pause","value":null}
{"process":0,"type":"invoke","f":"release","value":null,"time":1000000000}
{"process":0,"type":"fail","f":"release","value":null,"time":2000000000,"error":"lease not found"}
{"process":1,"type":"invoke","f":"acquire","value":null,"time":2000000000}
{"process":1,"type":"ok","f":"acquire","value":null,"time":3000000000}
`

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func packed(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCheckForeign(t *testing.T) {
	path := write(t, "history", twoHolders)
	zipped := write(t, "zipped", packed(t, twoHolders))
	empty := write(t, "empty", "[]")
	// 40 writes of unknown outcome, and a value that none of them wrote.
	var hard strings.Builder
	for i := range 40 {
		hard.WriteString(strings.ReplaceAll("{:process #, :type :invoke, :f :write, :value #}\n", "#", strconv.Itoa(i)))
	}
	hard.WriteString("{:process 99, :type :invoke, :f :read}\n{:process 99, :type :ok, :f :read, :value 77}\n")
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"violated": {[]string{path, "--model", "mutex"}, exitViolated,
			[]string{"✗ VIOLATED  mutex", "ends at index 6, line 7", "process 1: ok of acquire", "0 ok, 1 failed", "1 events of nemesis skipped", "--fail certain", "JSON lines"}},
		"gzip":          {[]string{zipped, "--model", "mutex"}, exitViolated, []string{"JSON lines, gzip"}},
		"other rule":    {[]string{path, "--model", "mutex", "--fail", "unknown"}, exitHolds, []string{"✓ holds  mutex", "--fail unknown"}},
		"by its error":  {[]string{path, "--model", "mutex", "--unknown-error", "lease not"}, exitHolds, []string{"✓ holds", `"lease not"`}},
		"two permits":   {[]string{path, "--model", "semaphore", "--permits", "2"}, exitHolds, []string{"2 permits"}},
		"lease over":    {[]string{path, "--model", "lease", "--ttl", "3s"}, exitHolds, []string{"3s"}},
		"lease not":     {[]string{path, "--model", "lease", "--ttl", "4s"}, exitViolated, []string{"1. process 0: acquire", "2. process 1: acquire"}},
		"search":        {[]string{path, "--model", "mutex", "--engine", "search"}, exitViolated, []string{"there is no order", "2 ok, 0 failed"}},
		"explain":       {[]string{path, "--model", "mutex", "--explain"}, exitViolated, []string{"What was checked", "How operations ended", "2 ok, 1 failed, 0 unknown", "What was assumed", "A monitor decided"}},
		"nothing in it": {[]string{empty, "--model", "mutex"}, exitHolds, []string{"nothing to judge"}},
		"not decided": {[]string{write(t, "hard", hard.String()), "--model", "register", "--timeout", "50ms", "--explain"}, exitUnknown,
			[]string{"? unknown  register: the search of 41 operations did not end within 50ms", "Unknown is not a pass"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"check"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("%q is not in what was printed:\n%s", want, stdout)
				}
			}
		})
	}
	code, stdout, _ := call(t, "check", path, "--model", "owner-mutex", "--json")
	var out struct {
		Verdict        string
		Rules          []string
		Counterexample struct {
			Index int
			Steps []struct{ Words string }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	if code != exitViolated || out.Verdict != "violated" || len(out.Rules) == 0 || out.Counterexample.Index != 6 || len(out.Counterexample.Steps) < 2 {
		t.Errorf("exit code %d, %+v", code, out)
	}
}

func TestCheckForeignRefuses(t *testing.T) {
	path := write(t, "history", twoHolders)
	own := write(t, "own", ownHistory(t))
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"no model":       {[]string{path}, []string{"JSON lines", "--model", "cas-register", "it could be --model mutex"}},
		"unknown model":  {[]string{path, "--model", "mutexx"}, []string{"did you mean mutex?"}},
		"wrong model":    {[]string{path, "--model", "register"}, []string{"line 1, operation 0", `knows no "acquire"`}},
		"no ttl":         {[]string{path, "--model", "lease"}, []string{"--ttl"}},
		"unknown rule":   {[]string{path, "--model", "mutex", "--fail", "x"}, []string{`"x"`, "certain or unknown"}},
		"unknown engine": {[]string{path, "--model", "mutex", "--engine", "x"}, []string{`"x"`, "monitor"}},
		"cut":            {[]string{write(t, "cut", twoHolders[:len(twoHolders)-30]), "--model", "mutex"}, []string{"line 7", "truncated"}},
		"cut gzip":       {[]string{write(t, "cutgz", packed(t, twoHolders)[:80]), "--model", "mutex"}, []string{"unexpected EOF"}},
		"our own":        {[]string{own, "--model", "mutex"}, []string{"is a history of stress", "--model"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"check"}, c.args...)...)
			if code != exitInput || stdout != "" {
				t.Errorf("exit code %d, printed %q", code, stdout)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q is not in the error: %s", want, stderr)
				}
			}
		})
	}
}

func ownHistory(t *testing.T) string {
	t.Helper()
	h := &history.History{
		Header: history.Header{Lock: "token", Guard: "none", Scenario: "none", Workload: "lock", Locks: true, Expires: true, Nodes: 1, Clients: 2, TTL: 500, Margin: 7},
		Events: []history.Event{
			{Time: 1, Process: 0, Type: history.Invoke, Op: history.Acquire, Key: "k", Hold: 1},
			{Time: 2, Process: 0, Type: history.OK, Op: history.Acquire, Key: "k", Hold: 1},
			{Time: 3, Process: 1, Type: history.Invoke, Op: history.Acquire, Key: "k", Hold: 2},
			{Time: 4, Process: 1, Type: history.Fail, Op: history.Acquire, Key: "k", Hold: 2, Error: history.Busy},
			{Time: 5, Process: 0, Type: history.Invoke, Op: history.Release, Key: "k", Hold: 1},
			{Time: 6, Process: 0, Type: history.OK, Op: history.Release, Key: "k", Hold: 1},
		},
	}
	var b bytes.Buffer
	if err := history.Encode(&b, h); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCheckOwnExplained(t *testing.T) {
	plain := write(t, "plain", ownHistory(t))
	code, want, stderr := call(t, "check", plain, "--explain")
	if code != exitHolds {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, part := range []string{"What was checked", "acquire   1 ok, 1 failed, 0 unknown", "margin of 7ns", "no witness"} {
		if !strings.Contains(want, part) {
			t.Errorf("%q is not in the explanation:\n%s", part, want)
		}
	}
	if _, zipped, _ := call(t, "check", write(t, "zipped", packed(t, ownHistory(t))), "--explain"); zipped != want {
		t.Errorf("the same gzipped is judged otherwise:\n%s", zipped)
	}
}

func TestConvert(t *testing.T) {
	dir := t.TempDir()
	plain := write(t, "plain", ownHistory(t))
	back := filepath.Join(dir, "back")
	for _, step := range [][2]string{{plain, filepath.Join(dir, "x.gz")}, {filepath.Join(dir, "x.gz"), back}} {
		if code, _, stderr := call(t, "history", "convert", step[0], step[1]); code != exitHolds {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	if got, err := os.ReadFile(back); err != nil || string(got) != ownHistory(t) {
		t.Errorf("packed and unpacked it is %s (%v)", got, err)
	}
	if head, err := os.ReadFile(filepath.Join(dir, "x.gz")); err != nil || head[0] != 0x1f {
		t.Errorf("x.gz is not packed: %v", err)
	}
	own := filepath.Join(dir, "own.jsonl")
	if code, _, stderr := call(t, "history", "convert", write(t, "foreign", twoHolders), own); code != exitHolds {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if code, stdout, _ := call(t, "check", own); code == exitInput || !strings.Contains(stdout, "2 operations ok, 1 failed") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	if code, _, stderr := call(t, "history", "convert", write(t, "text", "hello"), own); code != exitInput || !strings.Contains(stderr, "line 1") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
