package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"lockstress/results"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far a run is: one live line on a terminal, a plain line now and
// then elsewhere. It implements [runner.Progress].
type progress struct {
	w     io.Writer
	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil: not a terminal
	total int
	done  int
	wrong int
	begun time.Time
	said  time.Time
}

// plainEvery is how often a line is written where there is no terminal.
const plainEvery = 5 * time.Second

func newProgress(w io.Writer) *progress { return &progress{w: w, begun: time.Now()} }

// Planned implements [runner.Progress].
func (p *progress) Planned(trials int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.said = trials, time.Now()
	if isTerminal(p.w) {
		p.bar = progressbar.NewOptions(trials,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		return
	}
	fmt.Fprintf(p.w, "%d trials to run\n", trials)
}

// Began implements [runner.Progress].
func (p *progress) Began(cell string, trial int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%-46.46s", fmt.Sprintf("%s %d", cell, trial)))
	}
}

// Ended implements [runner.Progress].
func (p *progress) Ended(cell string, trial int, outcome results.Trial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	complaint := ""
	switch {
	case outcome.Error != "":
		complaint = "failed: " + outcome.Error
	case !outcome.Exercised:
		complaint = "not exercised: " + outcome.Why
	}
	if complaint != "" {
		p.wrong++
		if p.bar != nil {
			p.bar.Clear()
		}
		fmt.Fprintf(p.w, "%s, trial %d %s\n", cell, trial, complaint)
	}
	if p.bar != nil {
		p.bar.Add(1)
		return
	}
	if p.done == p.total || time.Since(p.said) >= plainEvery {
		p.said = time.Now()
		fmt.Fprintf(p.w, "%d of %d trials done after %.0f s\n", p.done, p.total, time.Since(p.begun).Seconds())
	}
}

func (p *progress) close() {
	if p.bar != nil {
		p.bar.Finish()
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width of the terminal, or a width that suits a log.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 140
}
