//go:build !linux

package proc

import "syscall"

// Without a parent-death signal the guardian alone covers a killed coordinator.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
