package journal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"

	"github.com/oncelib/once/internal/base/lockedfile"
)

// Open opens the journal at path, or creates the journal; the directory of path must exist. Open fails if another process has the file open, or if
// flushed records are damaged. On a system without file locks that keep other processes out, Open fails with errors.ErrUnsupported. After Open,
// call [Resume] to send the open intents of the journal again.
func Open(path string, cfg Config) (*File, error) { return open(path, cfg, osDisk{}) }

func open(path string, cfg Config, d disk) (_ *File, err error) {
	if path, err = filepath.Abs(path); err != nil { // the process may later change its directory
		return nil, fmt.Errorf("journal: %w", err)
	}
	f := &File{path: path, cfg: cfg, disk: d, next: new(batch)}
	if cfg.Compact <= 0 {
		f.cfg.Compact = 4 << 20
	}
	if f.cfg.MaxOpen <= 0 {
		f.cfg.MaxOpen = DefaultMaxOpen
	}
	if f.cfg.MaxBytes <= 0 {
		f.cfg.MaxBytes = DefaultMaxBytes
	}
	// A wrong Config must fail before a file is created.
	if _, err = allow(cfg.Headers); err != nil {
		return nil, err
	}
	if err := f.take(); err != nil {
		if f.out != nil {
			err = errors.Join(err, f.out.Close())
		}
		return nil, err
	}
	return f, nil
}

func (f *File) take() error {
	out, err := f.disk.open(f.path)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("journal: the file %s cannot be locked against other processes on this system (%s) or on its file system: %w. Try: a local disk of a Unix system, or journal.OpenTable, which several processes can share", f.path, runtime.GOOS, err)
	case errors.Is(err, lockedfile.ErrHeld):
		return fmt.Errorf("journal: another process has %s open: %w. Try: end the other process first (on Linux, \"fuser %s\" shows it), or give each process a separate journal", f.path, err, f.path)
	case err != nil:
		return fmt.Errorf("journal: the file cannot be opened: %w. Try: a folder that exists and in which this process may write", err)
	}
	if err := f.use(out); err != nil {
		return errors.Join(fmt.Errorf("journal: %w", err), out.Close())
	}
	text, err := io.ReadAll(io.NewSectionReader(out, 0, math.MaxInt64))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if f.table, f.damage, err = readTable(text); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	// Open writes all records to a new file. They are on the disk then, even if an earlier flush has wrongly reported success. The new file also has
	// no incomplete record at the end.
	if err := f.rewrite(); err != nil {
		return fmt.Errorf("journal: the file cannot be rewritten: %w. Try: free space on the disk, and check that this process may write in the folder", err)
	}
	return nil
}

// use makes the journal write to the file out.
func (f *File) use(out file) error {
	info, err := out.Stat()
	if err != nil {
		return err
	}
	f.out, f.self = out, info
	return nil
}

// current returns an error if the path no longer leads to the file of this journal. The next process would not find the intents in a file that was
// removed or replaced.
func (f *File) current() error {
	is, err := lockedfile.IsAt(f.path, f.self)
	if err != nil || is {
		return err
	}
	return fmt.Errorf("the file %s was removed or replaced by another file", f.path)
}
