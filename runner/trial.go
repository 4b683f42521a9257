package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"lockstress/checker"
	"lockstress/faults/network"
	"lockstress/history"
	"lockstress/internal/clock"
	"lockstress/internal/proc"
	"lockstress/results"
	"lockstress/scenarios"
	"lockstress/topology"
	"lockstress/witness"
	"lockstress/worker"
	"lockstress/workload"
)

// trial is one run of a cell, from the plan to the recorded history.
type trial struct {
	cell  *Cell
	n     int
	seed  int64
	slot  *slot
	group *proc.Group
	self  []string
	// path of the history; the journals are kept beside it until it is written.
	path string

	header      history.Header
	nonce       string
	key         string // of the lock
	resourceKey string
	resource    *topology.Node
	stage       *stage
	workers     []*worker.Remote
	witnesses   []*witness.Witness
}

// Prefix of all keys, so that on a server shared with others it is known what is
// ours.
const Prefix = "{stress:"

func (t *trial) parts() string { return strings.TrimSuffix(t.path, ".jsonl") + ".parts" }

// record plays the trial and writes its history. The history is written also if
// something went wrong, from what there is.
func (t *trial) record(ctx context.Context) (err error) {
	t.header = t.cell.header(t.n, t.seed)
	t.header.Origin, t.header.Started = clock.Now(), time.Now().UTC().Format(time.RFC3339Nano)
	t.nonce = strconv.FormatInt(t.seed&0xffffff, 36) + strconv.Itoa(os.Getpid())
	t.key = fmt.Sprintf("%s%s}:lock", Prefix, t.nonce)
	t.resourceKey = fmt.Sprintf("%s%s}:%s", Prefix, t.nonce, t.cell.Workload.Name)
	if err := os.RemoveAll(t.parts()); err != nil { // of an attempt that failed
		return err
	}
	if err := os.MkdirAll(t.parts(), 0o755); err != nil {
		return fmt.Errorf("making room for journals: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.cell.patience(),
		fmt.Errorf("the trial was not over after %v", t.cell.patience()))
	defer cancel()
	defer func() {
		// Whatever happens, the workers are gone before the history is read.
		err = errors.Join(err, t.dismiss(), t.merge())
	}()
	if err := t.setUp(ctx); err != nil {
		return err
	}
	if err := t.cell.Scenario.Play(ctx, t.stage); err != nil {
		return fmt.Errorf("playing %s: %w", t.cell.Scenario.Name, err)
	}
	return t.wrapUp(ctx)
}

// setUp puts everybody in place.
func (t *trial) setUp(ctx context.Context) error {
	kind := t.cell.Scenario.Topology(t.cell.Lock)
	servers, err := t.slot.topology(ctx, kind)
	if err != nil {
		return err
	}
	t.header.Versions = map[string]string{"redis": servers.Primary().Version(), "go": runtime.Version()}
	if t.cell.Workload.Op != "" {
		if t.resource, err = t.slot.resourceNode(ctx); err != nil {
			return err
		}
		if err := t.resource.Client().Set(ctx, t.resourceKey, t.header.Initial, 0).Err(); err != nil {
			return fmt.Errorf("stocking the resource: %w", err)
		}
	}
	notes, err := history.Create(filepath.Join(t.parts(), "coordinator.jsonl"), t.header)
	if err != nil {
		return err
	}
	t.stage = &stage{cell: t.cell, notes: notes, servers: servers, key: t.key, refused: make(chan struct{}),
		witnesses: map[string]*witness.Witness{}, bent: map[*network.Link]bent{},
	}
	if err := t.watch(ctx); err != nil {
		return err
	}
	return t.hire(ctx, kind)
}

// watch puts a witness on every server of the lock.
func (t *trial) watch(ctx context.Context) error {
	for _, n := range t.stage.servers.Nodes() {
		w, err := witness.Watch(ctx, n.Addr, n.Name, witness.Options{
			Owner: t.holdOf,
			Key:   func(stored string) (string, bool) { return t.key, stored == t.key },
			Each: func(s witness.Seen) {
				if s.Event.Effect == history.Denied {
					t.stage.sawRefusal()
				}
				t.stage.notes.Record(&s.Event)
			},
		})
		if err != nil {
			return err
		}
		t.witnesses = append(t.witnesses, w)
		t.stage.witnesses[n.Name] = w
	}
	return nil
}

// holdOf maps an owner token, as stored on a server, to the hold it was made for; 0
// if it is no token of this trial.
func (t *trial) holdOf(owner string) int64 {
	digits, ok := strings.CutPrefix(owner, t.nonce+"-")
	if !ok {
		return 0
	}
	hold, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return hold
}

// hire starts the workers.
func (t *trial) hire(ctx context.Context, kind scenarios.Topology) error {
	hosts := t.cell.hosts()
	t.stage.actors = make([]*actor, t.cell.Clients)
	for i, slots := range hosts {
		config := worker.Config{
			Worker: i, Clients: slots, Header: t.header, Nonce: t.nonce,
			Journal:  filepath.Join(t.parts(), fmt.Sprintf("worker-%d.jsonl", i)),
			TTL:      t.cell.TTL,
			RetryMin: retryMin, RetryMax: max(retryMin, min(retryMax, t.cell.TTL/25)),
			Retries: t.cell.Scenario.ClientRetries,
			Key:     t.key, ResourceKey: t.resourceKey,
		}
		if most := t.cell.Scenario.RetryMax; most > 0 {
			config.RetryMin, config.RetryMax = t.cell.Scenario.RetryMin, most
		}
		if err := t.connectResource(ctx, &config); err != nil {
			return err
		}
		if err := t.connect(ctx, kind, &config); err != nil {
			return err
		}
		w, err := worker.Start(ctx, t.group, append(t.self, WorkerCommand), config)
		if err != nil {
			return err
		}
		t.workers = append(t.workers, w)
		for _, s := range slots {
			t.stage.actors[s] = &actor{worker: w, slot: s}
		}
	}
	return nil
}

// Bounds of the random pause between two attempts to acquire.
const (
	retryMin = 2 * time.Millisecond
	retryMax = 20 * time.Millisecond
)

// hosts says which clients live in which worker.
func (c *Cell) hosts() [][]int {
	n := c.Clients
	if c.Scenario.Crowd {
		n = min(c.Workers, c.Clients)
	}
	hosts := make([][]int, n)
	for slot := range c.Clients {
		hosts[slot%n] = append(hosts[slot%n], slot)
	}
	return hosts
}

// connect tells a worker where the lock's servers are: directly, through links of
// its own, or through the Sentinels.
func (t *trial) connect(ctx context.Context, kind scenarios.Topology, config *worker.Config) error {
	nodes := t.stage.servers.Nodes()
	if kind == scenarios.Replicated {
		nodes = nodes[:1] // the primary; the link moves with its role
	}
	addr := func(n *topology.Node) string { return n.Addr }
	if t.cell.Scenario.Proxied {
		proxy, err := t.slot.network(ctx)
		if err != nil {
			return err
		}
		links := map[string]*network.Link{}
		for _, n := range nodes {
			link, err := proxy.Link(fmt.Sprintf("w%d-%s-%s", config.Worker, n.Name, t.nonce), n.Addr)
			if err != nil {
				return err
			}
			links[n.Name] = link
		}
		t.stage.links = append(t.stage.links, links)
		addr = func(n *topology.Node) string { return links[n.Name].Addr() }
	}
	if kind == scenarios.Sentinel {
		config.Sentinels, config.Master = t.stage.servers.Sentinels(), topology.MasterName
		config.Redirect = map[string]string{}
		for _, n := range nodes {
			config.Redirect[n.Announced()] = addr(n)
		}
		return nil
	}
	for _, n := range nodes {
		config.Nodes = append(config.Nodes, addr(n))
	}
	return nil
}

// connectResource tells a worker where the resource is.
func (t *trial) connectResource(ctx context.Context, config *worker.Config) error {
	if t.resource == nil {
		return nil
	}
	config.Resource = t.resource.Addr
	if !t.cell.Scenario.ProxiedResource {
		return nil
	}
	proxy, err := t.slot.network(ctx)
	if err != nil {
		return err
	}
	link, err := proxy.Link(fmt.Sprintf("w%d-resource-%s", config.Worker, t.nonce), t.resource.Addr)
	if err != nil {
		return err
	}
	t.stage.resourceLinks = append(t.stage.resourceLinks, link)
	config.Resource = link.Addr()
	return nil
}

// wrapUp ends the clients in good order, waits until the witnesses have seen
// everything, and reads the resource once more.
func (t *trial) wrapUp(ctx context.Context) error {
	var errs []error
	for _, w := range t.workers {
		errs = append(errs, w.Quit(5*time.Second))
	}
	for i, n := range t.stage.servers.Nodes() {
		if n.Alive() { // of the others, what was heard until they died stands
			errs = append(errs, t.witnesses[i].Sync(ctx))
		}
	}
	errs = append(errs, t.audit(ctx))
	return errors.Join(errs...)
}

// audit reads the resource when nobody works on it any more.
func (t *trial) audit(ctx context.Context) error {
	if t.resource == nil {
		return nil
	}
	e := history.Event{
		Process: t.header.Process(0, history.AuditorRole, 0),
		Type:    history.Invoke, Op: history.Read, Key: t.resourceKey,
	}
	if _, err := t.stage.notes.Record(&e); err != nil {
		return err
	}
	left, err := workload.Counter(ctx, t.resource.Client(), t.resourceKey)
	e.Type, e.Value, e.Known = history.OK, left, true
	if err != nil {
		e.Type, e.Known, e.Error = history.Info, false, history.Unknown+": "+err.Error()
	}
	_, err = t.stage.notes.Record(&e)
	return err
}

// dismiss ends what is left of the trial's processes, links and connections.
func (t *trial) dismiss() error {
	var errs []error
	for _, w := range t.workers {
		errs = append(errs, w.Kill())
		<-w.Done()
	}
	for _, w := range t.witnesses {
		errs = append(errs, w.Close())
	}
	if t.stage == nil {
		return errors.Join(errs...)
	}
	for _, links := range t.stage.links {
		for _, l := range links {
			errs = append(errs, l.Close())
		}
	}
	for _, l := range t.stage.resourceLinks {
		errs = append(errs, l.Close())
	}
	errs = append(errs, t.stage.notes.Close())
	if t.stage.dirty {
		errs = append(errs, t.slot.discard(t.cell.Scenario.Topology(t.cell.Lock)))
	}
	return errors.Join(errs...)
}

// merge makes one history of the journals.
func (t *trial) merge() error {
	if t.stage == nil {
		return os.RemoveAll(t.parts()) // it did not get as far as recording
	}
	h, err := history.LoadParts(t.parts())
	if err != nil {
		return fmt.Errorf("merging the journals: %w", err)
	}
	if err := history.Save(t.path, h); err != nil {
		return err
	}
	return os.RemoveAll(t.parts())
}

// judge has the stored history checked, and stores the counterexamples.
func (t *trial) judge(ctx context.Context, timeout time.Duration, root string, out *results.Trial) (*checker.Report, error) {
	h, err := history.Load(t.path)
	if err != nil {
		return nil, err
	}
	report, err := checker.Check(ctx, h, checker.Options{Timeout: timeout})
	if err != nil {
		return nil, fmt.Errorf("judging %s: %w", t.path, err)
	}
	out.Exercised, out.Why, out.Evidence = report.Exercised, report.Why, report.Evidence
	out.Operations, out.Holds, out.Spans = report.Operations, report.Holds, report.Spans
	for _, f := range report.Findings {
		p := f.Property
		stem := strings.TrimSuffix(t.path, ".jsonl") + "." + p.Name
		if f.Cut != nil {
			if err := history.Save(stem+".cut.jsonl", f.Cut); err != nil {
				return nil, err
			}
			p.Counterexample = relative(root, stem+".cut.jsonl")
		}
		if f.Picture != nil {
			if err := draw(stem+".html", f); err != nil {
				return nil, err
			}
			p.Picture = relative(root, stem+".html")
		}
		out.Properties = append(out.Properties, p)
	}
	return report, nil
}

func draw(path string, f checker.Finding) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = f.Picture(file)
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("drawing %s: %w", path, err)
	}
	return nil
}

func relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}
