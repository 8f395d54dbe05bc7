package demo

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/oncelib/once/internal/base/lockedfile"
)

const lockName = "lock" // the name of the file that the process locks

// ownFolder makes a folder in the folder for temporary files, and removes those with the same prefix whose processes were killed: the lock of a file
// ends with its process. A system without such locks keeps the folders of killed processes.
func ownFolder(prefix string) (dir string, remove func() error, err error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*", lockName)) // cannot fail: the pattern is valid
	for _, lock := range left {
		if f, err := lockedfile.Open(lock); err == nil {
			_ = os.RemoveAll(filepath.Dir(lock)) // if it fails, the folder stays and does no harm
			_ = f.Close()
		}
	}
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	lock, err := lockedfile.Create(filepath.Join(dir, lockName))
	if err != nil && lockedfile.Supported {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error {
		err := os.RemoveAll(dir)
		if lock != nil {
			_ = lock.Close()
		}
		return err
	}, nil
}
