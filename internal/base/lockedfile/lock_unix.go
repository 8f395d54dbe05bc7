//go:build unix && !solaris && !aix

package lockedfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

const (
	supported = true
	noFollow  = syscall.O_NOFOLLOW
)

func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
