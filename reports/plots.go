package reports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lockstress/results"
)

// Kind tells what a plot is about.
type Kind string

const (
	Damage       Kind = "damage"       // units oversold, updates lost
	Overlap      Kind = "overlap"      // how long two clients held the lock at once
	Latency      Kind = "latency"      // p50, p99 and p999 of acquire and release
	Distribution Kind = "distribution" // the whole distribution of the same
	Timeline     Kind = "timeline"     // who held the lock when, in one violated trial
)

// Plot is one picture of a run, as two files.
type Plot struct {
	Kind    Kind
	Title   string
	Caption string // how to read it
	// Cell is the index in Run.Cells of the cell that a timeline is about, −1 for
	// plots of the whole run.
	Cell int
	// PNG and SVG are the paths written, below the folder given to [Plots]. Both
	// are empty if there was nothing to draw.
	PNG, SVG string
	// Absent says why there is no picture, "" if there is one.
	Absent string
}

// Plots draws a run into dir, which is made if need be: what the locks cost, what
// acquire and release take, and for each violated cell the timeline of one trial. A
// kind without data is returned too, with the reason in [Plot.Absent].
func Plots(dir string, run *results.Run) ([]Plot, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for plots: %w", err)
	}
	var plots []Plot
	used := map[string]bool{}
	for _, s := range sketches(run) {
		p := s.Plot
		if p.Absent == "" {
			// File systems end at 255 bytes, and a lock may be a whole command line.
			s.file = s.file[:min(len(s.file), 120)]
			base := s.file
			for n := 2; used[base]; n++ {
				base = fmt.Sprintf("%s-%d", s.file, n)
			}
			used[base] = true
			p.PNG, p.SVG = filepath.Join(dir, base+".png"), filepath.Join(dir, base+".svg")
			if err := s.write(p.PNG, p.SVG); err != nil {
				return nil, fmt.Errorf("drawing %q: %w", p.Title, err)
			}
		}
		plots = append(plots, p)
	}
	return plots, nil
}

// sketch is a plot before it is on disk.
type sketch struct {
	Plot
	file string // name without folder and ending
	drawing
}

func (s sketch) write(png, svg string) error {
	raster, err1 := s.png()
	vector, err2 := s.svg()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(png, raster, 0o644), os.WriteFile(svg, vector, 0o644))
}

func sketches(run *results.Run) []sketch {
	var all []sketch
	all = append(all, damageSketches(run)...)
	all = append(all, overlapSketches(run)...)
	all = append(all, latencySketches(run)...)
	all = append(all, timelineSketches(run)...)
	return all
}

func absentSketch(kind Kind, title, why string) []sketch {
	return []sketch{{Plot: Plot{Kind: kind, Title: title, Cell: -1, Absent: why}}}
}
