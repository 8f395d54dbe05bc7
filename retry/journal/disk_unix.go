//go:build unix && !solaris && !aix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other processes out; it ends with the process.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
