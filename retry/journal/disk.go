package journal

import (
	"io"
	"os"
	"path/filepath"

	"github.com/oncelib/once/internal/base/lockedfile"
)

// disk has the disk operations of a journal. Tests replace it to make an operation fail.
type disk interface {
	open(path string) (file, error)   // opens a locked file, and creates it if it does not exist; the error is errors.ErrUnsupported if the system has no locks
	create(path string) (file, error) // creates a locked file, and replaces an existing one
	rename(from, to string) error
	syncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

type osDisk struct{}

func (osDisk) open(path string) (file, error) {
	f, err := lockedfile.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osDisk) create(path string) (file, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // the mode of an old file may be too wide
		return nil, err
	}
	f, err := lockedfile.Create(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) syncDir(path string) error { return syncDir(filepath.Dir(path)) }
