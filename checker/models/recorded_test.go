package models

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstress/checker/monitor"
	"lockstress/history/jepsen"
)

// recorded returns the folder of recorded histories that STRESS_HISTORIES names.
func recorded(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("STRESS_HISTORIES")
	if dir == "" {
		t.Skip("STRESS_HISTORIES names no folder of recorded histories")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if os.Getenv("CI") == "true" {
			t.Fatalf("STRESS_HISTORIES=%s is no folder: %v", dir, err)
		}
		t.Skipf("STRESS_HISTORIES=%s is no folder: %v", dir, err)
	}
	return dir
}

// TestRecorded: every history of the folder has the verdict that its path states.
func TestRecorded(t *testing.T) {
	dir := recorded(t)
	judged := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		var want monitor.Result
		switch {
		case strings.Contains(name, ".bad.") || strings.Contains(name, "/bad/"):
			want = monitor.Illegal
		case strings.Contains(name, ".good.") || strings.Contains(name, "/good/"):
			want = monitor.Legal
		default:
			return nil
		}
		judged++
		t.Run(name, func(t *testing.T) {
			model, o := "mutex", Options{}
			if strings.Contains(name, "cas-register") {
				model = "cas-register"
				o.Initial = "0"
			}
			for _, engine := range []Engine{Auto, Search} {
				o.Engine = engine
				v := check(t, model, load(t, path), o)
				if v.Result != want {
					t.Errorf("%s by %s: %v (%s), want %v", model, v.Engine, v.Result, v.Reason, want)
				}
				if want == monitor.Illegal && (v.Counterexample == nil || !v.Counterexample.Shortest) {
					t.Errorf("no shortest illegal prefix: %+v", v.Counterexample)
				}
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if judged < 60 {
		t.Errorf("only %d histories in %s", judged, dir)
	}
}

// TestRecordedEnds: where the shortest illegal prefix of some of them ends is known.
func TestRecordedEnds(t *testing.T) {
	dir := recorded(t)
	for name, want := range map[string]struct {
		model, initial string
		index          int64
	}{
		"mutex/etcd.bad.edn":                        {"mutex", "", 1120},
		"mutex/etcd.bad.json":                       {"mutex", "", 1120},
		"cas-register/bad/cas-failure.edn":          {"cas-register", "0", 491},
		"cas-register/bad/rethink-fail-minimal.edn": {"cas-register", "0", 4},
	} {
		for _, engine := range []Engine{Auto, Search} {
			h := load(t, filepath.Join(dir, name))
			v := check(t, want.model, h, Options{Initial: want.initial, Engine: engine})
			if v.Counterexample == nil {
				t.Errorf("%s: %v", name, v.Result)
				continue
			}
			if got := v.Counterexample.Last.Index; got != want.index || !v.Counterexample.Shortest {
				t.Errorf("%s by %s: ends at index %d (shortest: %v), want %d", name, v.Engine, got, v.Counterexample.Shortest, want.index)
			}
			// Without its last event the prefix is legal.
			h.Events = h.Events[:v.Counterexample.Events-1]
			if v := check(t, want.model, h, Options{Initial: want.initial, Engine: engine}); v.Result != monitor.Legal {
				t.Errorf("%s up to there, by %s: %v", name, v.Engine, v.Result)
			}
		}
	}
}

// TestRecordedRules: the mutex of etcd is legal if the releases that failed are read as
// unknown, all of them or the two of a lease that was not found.
func TestRecordedRules(t *testing.T) {
	dir := recorded(t)
	for _, name := range []string{"mutex/etcd.bad.edn", "mutex/etcd.bad.json"} {
		h := load(t, filepath.Join(dir, name))
		for _, o := range []Options{
			{Fail: Unsure},
			{UnknownErrors: []string{"requested lease not found"}},
			{UnknownErrors: []string{"requested lease not found"}, Engine: Search},
		} {
			if v := check(t, "mutex", h, o); v.Result != monitor.Legal {
				t.Errorf("%s with %+v: %v (%s)", name, o, v.Result, v.Reason)
			}
		}
	}
}

func load(t *testing.T, path string) *jepsen.History {
	t.Helper()
	h, err := jepsen.Load(path, jepsen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func check(t testing.TB, model string, h *jepsen.History, o Options) *Verdict {
	t.Helper()
	m, err := ByName(model)
	if err != nil {
		t.Fatal(err)
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	v, err := m.Check(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
