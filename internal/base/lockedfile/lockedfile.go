// Package lockedfile opens files that only one process at a time may have open. The lock is on the file itself. A second file
// for the lock could be removed. The lock ends with its process.
package lockedfile

import (
	"errors"
	"fmt"
	"os"
)

// ErrHeld says that another process, or another part of this process, has the file open.
var ErrHeld = errors.New("another process has the file open")

// Supported reports whether the system has such locks. If it has none, [Open] and [Create] fail with
// [errors.ErrUnsupported].
const Supported = supported

// Open opens the file at path and locks it. If no file exists, Open makes an empty one that only its owner can read. Open
// never follows a symbolic link, and never truncates a file.
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
		// The owner of the path has put a new file there between the opening and the lock, so the new file is opened.
	}
}

// isLink reports whether a file could not be opened because it is a symbolic link. The error differs between systems.
func isLink(path string, err error) bool {
	if err == nil {
		return false
	}
	info, statErr := os.Lstat(path)
	return statErr == nil && info.Mode()&os.ModeSymlink != 0
}

// take locks f, and reports whether f is still the file at path.
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

// Create makes the file at path and locks it. Create fails if a file exists there.
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

// IsAt reports whether the file that info describes is still at path: it was not removed or replaced.
func IsAt(path string, info os.FileInfo) (bool, error) {
	at, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(at, info), err
}
