package results

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() *Run {
	return &Run{
		Schema: Schema, Started: time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC), Seed: 7, TTL: time.Second,
		Cells: []Cell{{Lock: "token", Scenario: "gc_pause", Trials: []Trial{{
			N: 1, Exercised: true,
			Properties: []Property{{Name: "mutex", Verdict: Violated, Figures: map[string]float64{"overlap_ns": 5e8}}},
		}}}},
	}
}

func TestWriteThenReadGivesTheSameRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	want := sample()
	if err := Write(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWriteReplacesAndLeavesNothingBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "results.json")
	for seed := range int64(2) {
		run := sample()
		run.Seed = seed
		if err := Write(path, run); err != nil {
			t.Fatal(err)
		}
	}
	bad := sample()
	bad.Cells[0].Trials[0].Properties[0].Figures["orphan_ns"] = math.Inf(1)
	if err := Write(path, bad); err == nil || !strings.Contains(err.Error(), "token under gc_pause, trial 1") {
		t.Errorf("an infinite figure: got %v, want an error that names the cell", err)
	}
	if run, err := Read(path); err != nil || run.Seed != 1 {
		t.Errorf("got %v, %v; want the second run", run, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files in the folder: %v (%v), want results.json alone", files, err)
	}
}

func TestWriteIntoAMissingFolder(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "none", "results.json"), sample())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want error
		says string
	}{
		"empty":       {"", ErrForeign, "empty"},
		"text":        {"hello", ErrForeign, "invalid character"},
		"cut":         {`{"schema": 1, "cells": [{"lock": "to`, ErrForeign, "cut off"},
		"other JSON":  {`{"name": "x"}`, ErrForeign, `no "schema"`},
		"array":       {`[1, 2]`, ErrForeign, "cannot unmarshal"},
		"history":     {"{\"format\": \"lockstress-history\", \"version\": 1}\n{}", ErrForeign, "stress check"},
		"newer":       {`{"schema": 99, "cells": {}}`, ErrNewer, "schema is 99"},
		"schema zero": {`{"schema": 0, "cells": []}`, ErrForeign, "no schema 0"},
		"damaged":     {`{"schema": 1, "cells": "many"}`, ErrForeign, "damaged"},
		"two runs":    {`{"schema": 1, "cells": []}{"schema": 1, "cells": []}`, ErrForeign, "more follows"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "results.json")
			if err := os.WriteFile(path, []byte(c.data), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %q, want one that is %q, says %q and names the file", err, c.want, c.says)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "results.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want fs.ErrNotExist", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema": 1, "cells": [{"lock": "x", "trials": [{"n": 1}]}]}`))
	f.Add([]byte(`{"schema": 2}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := decode(data)
		if (run == nil) == (err == nil) {
			t.Errorf("run %v with error %v", run, err)
		}
		if err != nil && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrNewer) {
			t.Errorf("unexplained error %v", err)
		}
	})
}
