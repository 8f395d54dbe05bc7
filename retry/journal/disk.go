package journal

import (
	"io"
	"os"
	"path/filepath"
)

// disk is what a journal does to the disk. Tests make each step of it fail.
type disk interface {
	lock(f *os.File) error // fails with errors.ErrUnsupported where there is none
	read(path string) ([]byte, error)
	create(path string) (file, error) // replaces what is there
	rename(from, to string) error
	syncDir(dir string) error
}

type file interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

type osDisk struct{}

func (osDisk) lock(f *os.File) error { return lock(f) }

func (osDisk) read(path string) ([]byte, error) { return os.ReadFile(path) }

func (osDisk) create(path string) (file, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // its mode may be another one
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) syncDir(path string) error { return syncDir(filepath.Dir(path)) }
