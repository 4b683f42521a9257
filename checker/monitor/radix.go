package monitor

import "math/bits"

// event is a moment at which the sweep has to act.
type event struct {
	time int64
	ref  int32 // index of a hold or of an operation, depending on kind
	kind kind
}

// sortEvents sorts by time and keeps the order of events of equal time. It is a radix
// sort: comparing sorts spend more time on a million events than the sweep itself.
func sortEvents(events []event) []event {
	if len(events) < 2 {
		return events
	}
	low, high := events[0].time, events[0].time
	sorted := true
	for i := range events {
		t := events[i].time
		sorted = sorted && (i == 0 || events[i-1].time <= t)
		low, high = min(low, t), max(high, t)
	}
	if sorted {
		return events
	}
	const digit = 11
	const mask = 1<<digit - 1
	other := make([]event, len(events))
	width := bits.Len64(uint64(high) - uint64(low))
	for shift := 0; shift < width; shift += digit {
		var count [mask + 1]int32
		for i := range events {
			count[(uint64(events[i].time)-uint64(low))>>shift&mask]++
		}
		sum := int32(0)
		for d, n := range count {
			count[d] = sum
			sum += n
		}
		for i := range events {
			d := (uint64(events[i].time) - uint64(low)) >> shift & mask
			other[count[d]] = events[i]
			count[d]++
		}
		events, other = other, events
	}
	return events
}
