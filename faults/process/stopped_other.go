//go:build !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// waitStopped asks ps: without waitid there is no call that takes the news of a
// stop and leaves that of an end to others.
func waitStopped(pid int) error {
	for {
		out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return fmt.Errorf("asking ps for the state of process %d: %w", pid, err)
		}
		if strings.HasPrefix(strings.TrimSpace(string(out)), "T") {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
