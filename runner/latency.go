package runner

import (
	"time"

	"lockstress/history"
	"lockstress/results"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency gathers the durations of one operation over the trials of a cell.
type latency struct{ h *hdrhistogram.Histogram }

// Durations from 1 µs to 100 s, to three digits, in nanoseconds.
func newLatency() *latency {
	return &latency{hdrhistogram.New(int64(time.Microsecond), int64(100*time.Second), 3)}
}

func (l *latency) add(durations []time.Duration) {
	for _, d := range durations {
		// Out of range is cut to the range: the histogram answers with an error.
		l.h.RecordValue(min(max(int64(d), l.h.LowestTrackableValue()), l.h.HighestTrackableValue()))
	}
}

func (l *latency) summary(op history.Op) results.Latency {
	s := results.Latency{
		Op: string(op), Count: l.h.TotalCount(),
		P50: l.h.ValueAtQuantile(50), P99: l.h.ValueAtQuantile(99), P999: l.h.ValueAtQuantile(99.9), Max: l.h.Max(),
	}
	for _, bar := range l.h.Distribution() {
		if bar.Count > 0 {
			s.Buckets = append(s.Buckets, results.Bucket{Upper: bar.To, Count: bar.Count})
		}
	}
	return s
}
