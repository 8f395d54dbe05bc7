package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Open opens the journal at path, or makes one there; its folder must exist. It fails if
// another process has it open, if the system cannot keep other processes out (then the
// error is an errors.ErrUnsupported), and if it is damaged where it should not be. What is
// open in it is for [Resume].
func Open(path string, cfg Config) (*File, error) { return open(path, cfg, osDisk{}) }

func open(path string, cfg Config, d disk) (_ *File, err error) {
	f := &File{path: path, cfg: cfg, disk: d, next: new(batch)}
	if cfg.Compact <= 0 {
		f.cfg.Compact = 4 << 20
	}
	if _, err = allow(cfg.Headers); err != nil {
		return nil, err
	}
	if f.lock, err = os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("journal: %w. Try: a folder that exists and that you may write to", err)
	}
	if err := f.take(); err != nil {
		return nil, errors.Join(err, f.lock.Close())
	}
	return f, nil
}

func (f *File) take() error {
	err := f.disk.lock(f.lock)
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("journal: no other process can be kept out of %s on this system (%s) or file system: %w. Try: a local disk of a unix system, or sqljournal, which processes may share", f.path, runtime.GOOS, err)
	}
	if err != nil {
		owner, _ := io.ReadAll(io.LimitReader(f.lock, 100))
		return fmt.Errorf("journal: %s is open in another process (%s): %w. Try: end that one first, or give each process a journal of its own", f.path, strings.TrimSpace(string(owner)), err)
	}
	if err := f.sign(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	text, err := f.disk.read(f.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("journal: %w", err)
	}
	if f.table, f.damage, err = readTable(text); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	// Written anew, all that was read is on the disk, whatever an earlier process was told
	// when it flushed; and a torn end is gone.
	if err := f.rewrite(); err != nil {
		return fmt.Errorf("journal: %w. Try: make room, and see that you may write to its folder", err)
	}
	return nil
}

// sign writes down who has the lock, for those who do not get it.
func (f *File) sign() error {
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err := f.lock.WriteAt(fmt.Appendf(nil, "process %d\n", os.Getpid()), 0)
	return err
}
