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
// flushed records are damaged. It also fails if the system has no file locks that would keep other processes out; the error then is
// errors.ErrUnsupported. Call [Resume] for the open intents of the journal.
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
		return fmt.Errorf("journal: no other process can be kept out of %s on this system (%s) or file system: %w. Try: a local disk of a unix system, or journal.OpenTable, which processes may share", f.path, runtime.GOOS, err)
	case errors.Is(err, lockedfile.ErrHeld):
		return fmt.Errorf("journal: %s is open in another process: %w. Try: end that one first (on Linux \"fuser %s\" names it), or give each process a journal of its own", f.path, err, f.path)
	case err != nil:
		return fmt.Errorf("journal: %w. Try: a folder that exists and that you may write to", err)
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
		return fmt.Errorf("journal: %w. Try: make room, and see that you may write to its folder", err)
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
	return fmt.Errorf("%s was removed, or is another file now", f.path)
}
