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

// populate makes pages present and writable. A kernel before 5.14 cannot: then each
// page is made present when it is first written, which is only slower.
func populate(b []byte) { unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
