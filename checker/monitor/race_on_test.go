//go:build race

package monitor

// slower divides the samples under the race detector, which has little to find here.
const slower = 10
