package clock

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The readings must be those of CLOCK_MONOTONIC itself, not of a clock with a
// private origin: each lies between two readings taken through the kernel.
func TestNowIsTheMachinesMonotonicClock(t *testing.T) {
	kernel := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano()
	}
	for range 10_000 {
		before := kernel()
		now := Now()
		after := kernel()
		if now < before || now > after {
			t.Fatalf("Now() = %d, outside [%d, %d]", now, before, after)
		}
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
