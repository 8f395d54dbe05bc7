package archive

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/oncelib/once/internal/base/lockedfile"
)

// files are the disk operations of an archive. Tests let each of them fail.
type files interface {
	mkdir(path string) error
	open(path string) (file, error)   // opens the manifest and locks it, or makes it
	create(path string) (file, error) // locks the new file, which must not exist before
	rename(from, to string) error
	remove(path string) error
	names(dir string) ([]string, error)
	syncDir(dir string) error
}

type file interface {
	io.Writer
	io.WriterAt
	io.ReaderAt
	io.Closer
	Sync() error
}

type osFiles struct{}

func (osFiles) mkdir(path string) error { return os.Mkdir(path, 0o700) }

func (osFiles) open(path string) (file, error) {
	if !lockedfile.Supported { // the user must make sure that only one process writes the archive
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	f, err := lockedfile.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// create locks the new file. A new manifest is written under another name, and must already be locked when it gets
// its final name.
func (osFiles) create(path string) (file, error) {
	if !lockedfile.Supported {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	f, err := lockedfile.Create(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFiles) rename(from, to string) error { return os.Rename(from, to) }

func (osFiles) remove(path string) error { return os.Remove(path) }

func (osFiles) names(dir string) (names []string, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

func (osFiles) syncDir(dir string) error { return syncDir(dir) }

// makeDir makes dir and the missing directories above it, so that they survive a crash.
func makeDir(fs files, dir string) error {
	err := fs.mkdir(dir)
	if above := filepath.Dir(dir); errors.Is(err, iofs.ErrNotExist) && above != dir {
		if err = makeDir(fs, above); err == nil {
			err = fs.mkdir(dir)
		}
	}
	if info, e := os.Stat(dir); errors.Is(err, iofs.ErrExist) && e == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	return fs.syncDir(filepath.Dir(dir))
}
