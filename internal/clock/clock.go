// Package clock reads the machine's monotonic clock, so that events stamped in
// different processes of one trial can be put in one order.
package clock

import _ "unsafe" // for go:linkname

// Go's time.Time carries a monotonic reading too, but relative to a start that is
// private to each process. The runtime's own nanotime is the raw reading of
// CLOCK_MONOTONIC (mach_absolute_time on macOS), the same in every process of the
// machine, and costs no system call where the kernel offers a vDSO.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// Now returns nanoseconds of the machine's monotonic clock. Readings taken in
// different processes of one machine are comparable; across machines they are not.
func Now() int64 { return nanotime() }
