package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitStopped returns when the child has stopped. It takes the news of a stop only:
// that of an end is left to whoever waits for the process.
func waitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
