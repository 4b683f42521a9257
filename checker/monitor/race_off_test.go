//go:build !race

package monitor

const slower = 1
