package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lockstress/history"
	"lockstress/internal/proc"
	"lockstress/results"

	"golang.org/x/sync/errgroup"
)

// Progress is told what happens; its methods are called from several goroutines.
type Progress interface {
	Planned(trials int)
	Began(cell string, trial int)
	Ended(cell string, trial int, outcome results.Trial)
}

// Run plans and runs a matrix, and writes histories and results.json into o.Out. If
// ctx ends early, the results so far are returned, and written, with the error.
func Run(ctx context.Context, o Options, progress Progress) (*results.Run, error) {
	cells, err := Plan(o)
	if err != nil {
		return nil, err
	}
	return perform(ctx, o, cells, progress)
}

func perform(ctx context.Context, o Options, cells []Cell, progress Progress) (*results.Run, error) {
	group, err := proc.NewGroup(append(o.Self, GuardianCommand)...)
	if err != nil {
		return nil, err
	}
	r := &run{options: o, cells: cells, group: group, progress: progress, begun: time.Now()}
	if o.Passing {
		group.Adopt(o.Out)
	}
	r.prepare()
	err = r.play(ctx)
	err = errors.Join(err, r.closeSlots(), group.Close())
	out := r.results(err == nil)
	return out, errors.Join(err, results.Write(filepath.Join(o.Out, "results.json"), out))
}

// run is a run while it goes on.
type run struct {
	options  Options
	cells    []Cell
	group    *proc.Group
	progress Progress
	begun    time.Time

	mu        sync.Mutex
	trials    [][]results.Trial // by cell and trial
	latencies []map[history.Op]*latency
	versions  map[string]string
	slots     []*slot // all that were made
	idle      []*slot
}

// job is one trial to be run.
type job struct{ cell, n int }

func (r *run) prepare() {
	r.trials = make([][]results.Trial, len(r.cells))
	r.latencies = make([]map[history.Op]*latency, len(r.cells))
	r.versions = versions()
}

// play runs all trials: first, one by one, those that measure time, then the others
// side by side; they mostly wait for leases to end.
func (r *run) play(ctx context.Context) error {
	var alone, together []job
	for i := range r.cells {
		c := &r.cells[i]
		if c.Skipped != "" {
			continue
		}
		r.trials[i] = make([]results.Trial, r.options.Trials)
		r.latencies[i] = map[history.Op]*latency{}
		for n := range r.options.Trials {
			if c.Scenario.Alone {
				alone = append(alone, job{i, n})
			} else {
				together = append(together, job{i, n})
			}
		}
	}
	r.progress.Planned(len(alone) + len(together))
	if err := r.all(ctx, alone, 1); err != nil {
		return err
	}
	return r.all(ctx, together, r.options.Parallel)
}

func (r *run) all(ctx context.Context, jobs []job, width int) error {
	pool, ctx := errgroup.WithContext(ctx)
	pool.SetLimit(width)
	for _, j := range jobs {
		pool.Go(func() error {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			return r.one(ctx, j)
		})
	}
	return pool.Wait()
}

// one runs one trial in an idle slot. What goes wrong with the trial is part of its
// result; the error is for what makes the run senseless to go on with.
func (r *run) one(ctx context.Context, j job) error {
	c := &r.cells[j.cell]
	s := r.borrow()
	defer r.giveBack(s)
	r.progress.Began(c.Name(), j.n+1)
	out, err := r.trial(ctx, s, c, j)
	if err != nil && ctx.Err() == nil && !isFatal(err) {
		// It was the harness or the servers that failed, not the lock: the trial
		// is played once more, and says so.
		first := err.Error()
		out, err = r.trial(ctx, s, c, j)
		out.Retried = first
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isFatal(err) {
		return err
	}
	if err != nil {
		out.Error = err.Error()
	}
	r.mu.Lock()
	r.trials[j.cell][j.n] = out
	r.mu.Unlock()
	r.progress.Ended(c.Name(), j.n+1, out)
	return nil
}

func (r *run) trial(ctx context.Context, s *slot, c *Cell, j job) (results.Trial, error) {
	n := j.n + 1
	dir := filepath.Join(r.options.Out, "histories", c.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return results.Trial{}, err
	}
	t := &trial{
		cell: c, n: n, seed: r.options.seed(c, n), slot: s, group: r.group, self: r.options.Self,
		path: filepath.Join(dir, fmt.Sprintf("%d.jsonl", n)),
	}
	out := results.Trial{N: n, Seed: t.seed, History: relative(r.options.Out, t.path)}
	begun := time.Now()
	err := t.record(ctx)
	out.Took = time.Since(begun)
	if err != nil {
		return out, err
	}
	report, err := t.judge(ctx, r.options.CheckTimeout, r.options.Out, &out)
	if err != nil {
		return out, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for op, durations := range report.Latencies {
		l := r.latencies[j.cell][op]
		if l == nil {
			l = newLatency()
			r.latencies[j.cell][op] = l
		}
		l.add(durations)
	}
	r.versions["redis"] = t.header.Versions["redis"]
	return out, nil
}

func (r *run) borrow() *slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.idle); n > 0 {
		s := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return s
	}
	s := newSlot(r.group, r.options.Self, r.options.RedisImage)
	r.slots = append(r.slots, s)
	return s
}

func (r *run) giveBack(s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, s)
}

func (r *run) closeSlots() error {
	errs := make([]error, len(r.slots))
	var all sync.WaitGroup
	for i, s := range r.slots {
		all.Go(func() { errs[i] = s.close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r *run) results(complete bool) *results.Run {
	out := &results.Run{
		Schema: results.Schema, Started: r.begun.UTC(), Finished: time.Now().UTC(), Complete: complete,
		Command: r.options.Command, Seed: r.options.Seed, TTL: r.options.TTL,
		Versions: r.versions, Machine: machine(),
	}
	for i := range r.cells {
		c := &r.cells[i]
		cell := results.Cell{
			Lock: c.Lock.Name, Family: c.Lock.Family, Guard: c.Guard.Name, Scenario: c.Scenario.Name, Workload: c.Workload.Name,
			Topology: string(c.Scenario.Topology(c.Lock)), Skipped: c.Skipped,
		}
		for _, t := range r.trials[i] {
			if t.N != 0 { // else it was not run, for want of time
				cell.Trials = append(cell.Trials, t)
			}
		}
		for _, op := range []history.Op{history.Acquire, history.Release} {
			if l := r.latencies[i][op]; l != nil {
				cell.Latency = append(cell.Latency, l.summary(op))
			}
		}
		out.Cells = append(out.Cells, cell)
	}
	return out
}

// Folder returns a fresh folder for a run under parent, named after the moment.
func Folder(parent string, now time.Time) string {
	return filepath.Join(parent, strings.ReplaceAll(now.UTC().Format("2006-01-02T15:04:05.000Z"), ":", "-"))
}

// Latest makes parent/latest point to the run's folder.
func Latest(folder string) error {
	link := filepath.Join(filepath.Dir(folder), "latest")
	fresh := link + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(folder), fresh); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}
