// Package runner runs trials: it plans them, puts servers, proxies and workers in
// place, lets the scenario play, gathers the history, and has it judged.
package runner

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"lockstress/history"
	"lockstress/impls"
	"lockstress/scenarios"
	"lockstress/workload"
)

// Options of a run.
type Options struct {
	Locks     []string // empty: all
	Scenarios []string // empty: the usual ones; see [scenarios.Find]
	// Guards to combine with; empty: none, and fenced for the locks that have
	// fencing tokens.
	Guards    []string
	Workloads []string // empty: stock
	Trials    int      // of each cell
	Seed      int64
	// Exact: the first trial of a cell has Seed itself, not one derived from it,
	// so that a trial of an earlier run can be played again.
	Exact    bool
	TTL      time.Duration
	Clients  int // in scenarios with a crowd; 0: as the workload says
	Workers  int // processes that host a crowd
	Parallel int // trials side by side
	// CheckTimeout bounds each check of the judge.
	CheckTimeout time.Duration
	// RedisImage is the Docker image whose redis-server to use; empty for the one
	// on the PATH.
	RedisImage string
	// Out is the folder of this run; it is made.
	Out string
	// Passing: Out is not meant to stay, and goes too if the coordinator is killed.
	Passing bool
	// Command is what was typed, for the report.
	Command []string
	// Self is the command line that runs this program, to which the name of a
	// hidden sub-command is added.
	Self []string
}

// Names of the hidden sub-commands.
const (
	WorkerCommand   = "worker"
	ProxyCommand    = "proxy"
	GuardianCommand = "guardian"
)

// Limits of options, far beyond what makes sense.
const (
	maxTrials  = 1_000_000
	maxClients = 1024
	minTTL     = 50 * time.Millisecond
)

// Cell is lock × guard × scenario × workload.
type Cell struct {
	scenarios.Cell
	Scenario scenarios.Scenario
	// Skipped says why the cell is not run; "" if it is.
	Skipped string
}

// Name identifies the cell, also as a file name.
func (c *Cell) Name() string {
	return strings.ReplaceAll(strings.Join([]string{c.Lock.Name, c.Guard.Name, c.Scenario.Name, c.Workload.Name}, "_"), "/", "-")
}

// Plan returns the cells of a run in the order in which they are shown. The error
// names all that is wrong with the options.
func Plan(o Options) ([]Cell, error) {
	locks, err1 := lookUp(o.Locks, names(impls.All(), func(i impls.Info) string { return i.Name }), one(impls.Find))
	scenes, err2 := lookUp(o.Scenarios, names(scenarios.Usual(), func(s scenarios.Scenario) string { return s.Name }), scenarios.Find)
	guards, err3 := lookUp(o.Guards, names(workload.Guards(), func(g workload.Guard) string { return g.Name }), one(workload.FindGuard))
	works, err4 := lookUp(o.Workloads, []string{"stock"}, one(workload.Find))
	if err := errors.Join(err1, err2, err3, err4, o.check()); err != nil {
		return nil, err
	}
	var cells []Cell
	for _, work := range works {
		for _, l := range locks {
			for _, guard := range guards {
				if len(o.Guards) == 0 && guard.Fenced && !l.Fences {
					continue // nobody asked for it
				}
				for _, s := range scenes {
					cells = append(cells, o.cell(l, guard, s, work))
				}
			}
		}
	}
	return cells, nil
}

func (o Options) cell(l impls.Info, guard workload.Guard, s scenarios.Scenario, work workload.Workload) Cell {
	c := Cell{Scenario: s, Cell: scenarios.Cell{
		Lock: l, Guard: guard, Workload: work,
		TTL: max(o.TTL, s.MinTTL), Clients: scenarios.Actors, Workers: o.Workers,
	}}
	if s.Crowd {
		c.Clients = cmp.Or(o.Clients, work.CrowdClients)
	}
	switch {
	case guard.Fenced && !l.Fences:
		c.Skipped = fmt.Sprintf("guard %s needs fencing tokens, and %s gives none", guard.Name, l.Name)
	case !l.Locks && work.Op == "":
		c.Skipped = fmt.Sprintf("%s takes no lock and workload %s has no resource: there is nothing to judge", l.Name, work.Name)
	case guard.Name != "none" && work.Op == "":
		c.Skipped = fmt.Sprintf("workload %s has no resource to guard", work.Name)
	default:
		c.Skipped = s.Skip(c.Cell)
	}
	return c
}

func (o Options) check() error {
	var errs []error
	bad := func(flag string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s %v: %s", flag, value, want))
	}
	if o.Trials < 1 || o.Trials > maxTrials {
		bad("trials", o.Trials, fmt.Sprintf("give 1 to %d", maxTrials))
	}
	if o.TTL < minTTL || o.TTL > time.Hour {
		bad("ttl", o.TTL, fmt.Sprintf("give %v to 1h; Redis counts whole milliseconds, and a shorter lease says more about the machine than about the lock", minTTL))
	}
	if o.TTL%time.Millisecond != 0 {
		bad("ttl", o.TTL, "give whole milliseconds")
	}
	if o.Clients != 0 && (o.Clients < 2 || o.Clients > maxClients) {
		bad("clients", o.Clients, fmt.Sprintf("give 2 to %d: one client alone contends with nobody", maxClients))
	}
	if o.Workers < 1 || o.Workers > maxClients {
		bad("workers", o.Workers, fmt.Sprintf("give 1 to %d", maxClients))
	}
	if o.Parallel < 1 || o.Parallel > 256 {
		bad("parallel", o.Parallel, "give 1 to 256")
	}
	return errors.Join(errs...)
}

// seed of the cell's n-th trial, from 1.
func (o Options) seed(c *Cell, n int) int64 {
	if o.Exact {
		return o.Seed + int64(n) - 1
	}
	return trialSeed(o.Seed, c.Name(), n)
}

// header is what the history of a trial begins with.
func (c *Cell) header(trial int, seed int64) history.Header {
	h := history.Header{
		Lock: c.Lock.Name, Guard: c.Guard.Name, Scenario: c.Scenario.Name, Workload: c.Workload.Name,
		Trial: trial, Seed: seed,
		Locks: c.Lock.Locks, Expires: c.Lock.Expires, Fences: c.Lock.Fences, Notices: c.Lock.Notices,
		Witnessed: true, Nodes: 1, Faulty: c.Scenario.Faulty,
		Clients: c.Clients, TTL: int64(c.TTL), Margin: int64(margin(c.TTL)),
		Initial: c.Workload.Initial, Amount: c.Workload.Amount,
	}
	if c.Scenario.Crowd {
		h.Initial = c.Workload.Crowd
	}
	if c.Lock.Topology == impls.Quorum {
		h.Nodes = quorumNodes
	}
	return h
}

// quorumNodes is how many independent servers a quorum lock gets.
const quorumNodes = 5

// margin is how far the clocks of clients and servers may drift apart in the course
// of one lease before the judge calls it broken: what Redlock allows itself.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// trialSeed gives every trial of every cell a seed of its own that depends on
// nothing but the run's seed and the cell, so one trial can be run again alone.
func trialSeed(seed int64, cell string, n int) int64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%d", seed, cell, n)
	return int64(h.Sum64() >> 1)
}

func lookUp[T any](asked, all []string, find func(string) ([]T, error)) ([]T, error) {
	if len(asked) == 0 {
		asked = all
	}
	var found []T
	var errs []error
	for _, name := range asked {
		f, err := find(strings.TrimSpace(name))
		errs = append(errs, err)
		found = append(found, f...)
	}
	return found, errors.Join(errs...)
}

func one[T any](find func(string) (T, error)) func(string) ([]T, error) {
	return func(name string) ([]T, error) {
		v, err := find(name)
		return []T{v}, err
	}
}

func names[T any](all []T, name func(T) string) []string {
	var list []string
	for _, v := range all {
		list = append(list, name(v))
	}
	return list
}
