// Package results is the outcome of a run as data: what results.json holds, written
// by the runner and read by reports, gates and people's own scripts.
package results

import "time"

// Schema is the version of the format. It grows when a field changes its meaning or
// goes; new fields alone do not change it.
const Schema = 1

// Verdict on one property of one trial.
type Verdict string

const (
	Holds         Verdict = "holds"
	Violated      Verdict = "violated"
	Unknown       Verdict = "unknown"        // the judge could not tell in its time; never a pass
	NotApplicable Verdict = "not applicable" // the property says nothing about this cell
)

// Property names, in the order in which they are shown.
var Properties = []string{"lease", "mutex", "resource", "honesty", "fencing", "notice", "orphan", "progress"}

// Run is one invocation of the harness.
type Run struct {
	Schema   int               `json:"schema"`
	Started  time.Time         `json:"started"`
	Finished time.Time         `json:"finished"`
	Complete bool              `json:"complete"` // false if it was interrupted
	Command  []string          `json:"command"`
	Seed     int64             `json:"seed"`
	TTL      time.Duration     `json:"ttl_ns"`
	Versions map[string]string `json:"versions"` // "redis", "go", "stress", "os", and one per library
	Machine  Machine           `json:"machine"`
	Cells    []Cell            `json:"cells"`
}

// Machine is where it ran: figures of time mean nothing without it.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory_bytes,omitempty"`
}

// Cell is lock × guard × scenario × workload, and its trials.
type Cell struct {
	Lock     string `json:"lock"`
	Family   string `json:"family"`
	Guard    string `json:"guard"`
	Scenario string `json:"scenario"`
	Workload string `json:"workload"`
	Topology string `json:"topology,omitempty"`
	// Skipped says why the cell was not run ("" if it was).
	Skipped string  `json:"skipped,omitempty"`
	Trials  []Trial `json:"trials,omitempty"`
	// Latency of the operations of all trials together.
	Latency []Latency `json:"latency,omitempty"`
}

// Trial is one run of a cell with one seed.
type Trial struct {
	N       int           `json:"n"` // from 1
	Seed    int64         `json:"seed"`
	History string        `json:"history"` // path relative to results.json
	Took    time.Duration `json:"took_ns"`
	// Error: the trial could not be completed; it has no verdicts.
	Error string `json:"error,omitempty"`
	// Retried: the trial was played a second time, because the first could not be
	// completed, for this reason.
	Retried string `json:"retried,omitempty"`
	// Exercised: the fault bit and operations succeeded. If not, Why says what
	// was missing, and the verdicts count neither for nor against the lock.
	Exercised  bool           `json:"exercised"`
	Why        string         `json:"why,omitempty"`
	Evidence   []string       `json:"evidence,omitempty"` // how it is known that the fault bit
	Operations map[string]int `json:"operations"`         // by outcome: "ok", "fail", "info"
	Properties []Property     `json:"properties"`         // in the order of [Properties]
	// Spans and Holds draw the timeline of a violation; times count from the
	// trial's start, in nanoseconds.
	Holds []Hold `json:"holds,omitempty"`
	Spans []Span `json:"spans,omitempty"`
}

// Property is a verdict with the figures beside it.
type Property struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	// Reason says in one sentence why it is violated, unknown or not applicable.
	Reason string `json:"reason,omitempty"`
	// Figures by name; the name ends in the unit: overlap_ns, oversold_units,
	// lost_updates, overlaps, repeats, reversals, orphan_ns, belief_gap_ns, …
	Figures map[string]float64 `json:"figures,omitempty"`
	// Counterexample and Picture are paths relative to results.json: the cut-down
	// history of a violation, and Porcupine's drawing of it.
	Counterexample string `json:"counterexample,omitempty"`
	Picture        string `json:"picture,omitempty"`
}

// Hold is a span of time for which a client believed that it held the lock.
type Hold struct {
	Client int    `json:"client"`
	Hold   int64  `json:"hold"`
	Key    string `json:"key"`
	From   int64  `json:"from_ns"` // its acquire returned
	To     int64  `json:"to_ns"`   // it invoked release, was told of the loss, or died
	// Lease is when the lease ended as far as the holder could know; 0 if never.
	Lease int64 `json:"lease_ns,omitempty"`
}

// Span is a fault while it lasted.
type Span struct {
	Text string `json:"text"`
	Node string `json:"node,omitempty"`
	From int64  `json:"from_ns"`
	To   int64  `json:"to_ns"`
}

// Latency summarises the durations of one operation that ended ok.
type Latency struct {
	Op    string `json:"op"` // "acquire" or "release"
	Count int64  `json:"n"`
	P50   int64  `json:"p50_ns"`
	P99   int64  `json:"p99_ns"`
	P999  int64  `json:"p999_ns"`
	Max   int64  `json:"max_ns"`
	// Buckets of the histogram, by rising Upper bound.
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket counts the operations with a duration above the bucket before and up to
// Upper nanoseconds.
type Bucket struct {
	Upper int64 `json:"le_ns"`
	Count int64 `json:"n"`
}

// Property returns the named property of a trial.
func (t *Trial) Property(name string) (Property, bool) {
	for _, p := range t.Properties {
		if p.Name == name {
			return p, true
		}
	}
	return Property{}, false
}

// Counts of one property over the trials of a cell.
type Counts struct {
	Holds, Violated, Unknown, NotApplicable int
	// NotExercised trials tested nothing, Failed ones could not be run; neither
	// is in the counts above. A violation seen in a trial whose fault did not
	// bite is a violation all the same.
	NotExercised, Failed int
}

// Count tallies a property over the cell's trials.
func (c *Cell) Count(property string) Counts {
	var n Counts
	for i := range c.Trials {
		t := &c.Trials[i]
		if t.Error != "" {
			n.Failed++
			continue
		}
		p, ok := t.Property(property)
		switch {
		case !t.Exercised && p.Verdict != Violated:
			n.NotExercised++
		case !ok, p.Verdict == NotApplicable:
			n.NotApplicable++
		case p.Verdict == Holds:
			n.Holds++
		case p.Verdict == Violated:
			n.Violated++
		default:
			n.Unknown++
		}
	}
	return n
}

// Sum adds up a figure of a property over the trials of a cell.
func (c *Cell) Sum(property, figure string) float64 {
	var sum float64
	for i := range c.Trials {
		if t := &c.Trials[i]; t.Error == "" {
			p, _ := t.Property(property)
			sum += p.Figures[figure]
		}
	}
	return sum
}
