package history

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func allocate(f *os.File, offset, length int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, offset, length)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return f.Truncate(offset + length)
	}
	return err
}
