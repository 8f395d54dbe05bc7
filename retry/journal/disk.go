package journal

import (
	"io"
	"os"
	"path/filepath"

	"github.com/oncelib/once/internal/base/lockedfile"
)

// disk has the disk operations of a journal. Tests make each of them fail.
type disk interface {
	open(path string) (file, error)   // locked; created if it does not exist; errors.ErrUnsupported if the system has no locks
	create(path string) (file, error) // locked; replaces an existing file
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
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // its mode may differ
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
