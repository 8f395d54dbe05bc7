// Package lockedfile opens files that one process at a time may have open. The lock is on
// the file itself, and not on a second file that may be removed; it ends with the
// process.
package lockedfile

import (
	"errors"
	"fmt"
	"os"
)

// ErrHeld says that another process, or another part of this one, has the file open.
var ErrHeld = errors.New("another process has the file open")

// Supported reports whether the system has such a lock. Where it has none, [Open] and
// [Create] fail with [errors.ErrUnsupported].
const Supported = supported

// Open opens the file at path and locks it. If there is no file it makes an empty one that
// its owner alone can read. It never follows a symbolic link and never truncates.
func Open(path string) (*os.File, error) {
	if !Supported {
		return nil, errors.ErrUnsupported
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if isLink(path, err) {
			return nil, fmt.Errorf("%s is a symbolic link, which may point to another file later. Try: the path of the file itself", path)
		}
		if err != nil {
			return nil, err
		}
		current, err := take(f, path)
		if err == nil && current {
			return f, nil
		}
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, err
		}
		// Its owner has put a new file at path between the opening and the lock.
	}
}

// isLink reports whether a file could not be opened because it is a link. Systems disagree about the error.
func isLink(path string, err error) bool {
	if err == nil {
		return false
	}
	info, statErr := os.Lstat(path)
	return statErr == nil && info.Mode()&os.ModeSymlink != 0
}

// take locks f and reports whether f is still the file at path.
func take(f *os.File, path string) (current bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file", path)
	}
	if err := lock(f); err != nil {
		return false, err
	}
	return IsAt(path, info)
}

// Create makes the file at path and locks it. It fails if there is one.
func Create(path string) (*os.File, error) {
	if !Supported {
		return nil, errors.ErrUnsupported
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// IsAt reports whether the file that info describes is the one at path: not removed, and not
// replaced by another one.
func IsAt(path string, info os.FileInfo) (bool, error) {
	at, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(at, info), err
}
