package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Write stores run at path as indented JSON. The file appears whole or not at all:
// it is written beside path and renamed, so a reader never meets half a run. The
// folder must exist.
func Write(path string, run *Run) (err error) {
	if err := finite(run); err != nil {
		return fmt.Errorf("writing results to %s: %w", path, err)
	}
	stamped := *run
	stamped.Schema = Schema
	data, err := json.MarshalIndent(&stamped, "", " ")
	if err != nil {
		return fmt.Errorf("encoding results for %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing results to %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = fmt.Errorf("writing results to %s: %w", path, err)
		}
	}()
	_, err = f.Write(append(data, '\n'))
	// CreateTemp makes files for the owner's eyes only; results are for sharing.
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// finite refuses figures that JSON has no number for, and says where they are.
func finite(run *Run) error {
	for _, c := range run.Cells {
		for _, t := range c.Trials {
			for _, p := range t.Properties {
				for name, v := range p.Figures {
					if math.IsInf(v, 0) || math.IsNaN(v) {
						return fmt.Errorf("%s under %s, trial %d: figure %s of %s is %v, which JSON cannot hold; leave it out and say it in the reason",
							c.Lock, c.Scenario, t.N, name, p.Name, v)
					}
				}
			}
		}
	}
	return nil
}

// Errors that [Read] wraps: what is wrong with the file.
var (
	ErrForeign = errors.New("not a results file of stress")
	ErrNewer   = errors.New("written by a newer stress")
)

// Read loads a run written by [Write]. A file of something else gives [ErrForeign],
// one of a later [Schema] gives [ErrNewer]; a missing file gives [fs.ErrNotExist].
func Read(path string) (*Run, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("reading results: there is no file %s; name the results.json of a run: %w", path, err)
	case err != nil:
		return nil, fmt.Errorf("reading results: %w", err)
	}
	run, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading results from %s: %w", path, err)
	}
	return run, nil
}

func decode(data []byte) (*Run, error) {
	// The head is read on its own: a later schema may have changed everything else.
	var head struct {
		Schema *int            `json:"schema"`
		Format string          `json:"format"`
		Cells  json.RawMessage `json:"cells"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&head)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it is empty", ErrForeign)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: it ends in the middle, so it was cut off: %w", ErrForeign, err)
	case err != nil && head.Schema == nil:
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case head.Format != "":
		return nil, fmt.Errorf("%w: it is a %q file; judge a history with stress check", ErrForeign, head.Format)
	case head.Schema == nil || head.Cells == nil:
		return nil, fmt.Errorf(`%w: it has no "schema" or no "cells"`, ErrForeign)
	case *head.Schema > Schema:
		return nil, fmt.Errorf("%w: its schema is %d, this one reads up to %d; update stress, or run again with this one", ErrNewer, *head.Schema, Schema)
	case *head.Schema < 1:
		return nil, fmt.Errorf("%w: there is no schema %d", ErrForeign, *head.Schema)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more follows after the run", ErrForeign)
	}
	var run Run
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, fmt.Errorf("%w: schema %d, but damaged or edited: %w", ErrForeign, *head.Schema, err)
	}
	return &run, nil
}
