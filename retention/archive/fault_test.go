package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store/memstore"
)

var errDisk = errors.New("no space left on device")

// faultyFiles fails at the N-th operation, and until it is healed if it is told so. A
// write that fails has written a half, and a rename or a new file that fails may have
// been done.
type faultyFiles struct {
	osFiles
	nth   int
	stays bool // the disk, full
	after bool // what fails has been done
	seen  map[string]int
}

func (f *faultyFiles) pass(what string) error {
	f.nth--
	if f.nth == 0 || f.nth < 0 && f.stays {
		f.seen[what]++
		return fmt.Errorf("%s: %w", what, errDisk)
	}
	return nil
}

func (f *faultyFiles) heal() { f.nth, f.stays = 0, false }

// do does something that can fail before or after it was done.
func (f *faultyFiles) do(what string, it func() error) error {
	fault := f.pass(what)
	if fault != nil && !f.after {
		return fault
	}
	return errors.Join(it(), fault)
}

func (f *faultyFiles) wrap(opened file, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return faultyFile{opened, f}, nil
}

func (f *faultyFiles) open(path string) (file, error) { return f.wrap(f.osFiles.open(path)) }

func (f *faultyFiles) create(path string) (opened file, err error) {
	if err := f.do("create", func() error {
		opened, err = f.osFiles.create(path)
		return err
	}); err != nil {
		if opened != nil {
			_ = opened.Close()
		}
		return nil, err
	}
	return f.wrap(opened, nil)
}

func (f *faultyFiles) rename(from, to string) error {
	return f.do("rename", func() error { return f.osFiles.rename(from, to) })
}

func (f *faultyFiles) remove(path string) error {
	return f.do("remove", func() error { return f.osFiles.remove(path) })
}

func (f *faultyFiles) syncDir(dir string) error {
	return f.do("sync of a folder", func() error { return f.osFiles.syncDir(dir) })
}

func (f *faultyFiles) names(dir string) ([]string, error) {
	if err := f.pass("list"); err != nil {
		return nil, err
	}
	return f.osFiles.names(dir)
}

type faultyFile struct {
	file
	f *faultyFiles
}

func (f faultyFile) Write(b []byte) (int, error) {
	if err := f.f.pass("write"); err != nil {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, err
	}
	return f.file.Write(b)
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.f.pass("write of the manifest"); err != nil {
		n, _ := f.file.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.file.WriteAt(b, at)
}

func (f faultyFile) Sync() error { return f.f.do("sync", f.file.Sync) }

// TestFaultsOfTheDiskLoseNothing makes the N-th operation on the disk fail, N = 1, 2, ... until a sweep
// survives. Whatever fails, what is deleted is in the archive; and afterwards all of it
// is, whether the writer goes on or another one opens the archive, as after a crash.
func TestFaultsOfTheDiskLoseNothing(t *testing.T) {
	seen := map[string]int{}
	for _, c := range []struct{ stays, after, reopen bool }{
		{}, {after: true}, {stays: true}, {reopen: true}, {after: true, reopen: true}, {stays: true, after: true, reopen: true},
	} {
		for n := 1; ; n++ {
			if n > 500 {
				t.Fatal("no end after 500 operations")
			}
			f := &faultyFiles{nth: n, stays: c.stays, after: c.after, seen: seen}
			if !strike(t, f, c.reopen) {
				t.Logf("%+v: %d operations", c, n-1)
				break
			}
			if t.Failed() {
				t.Fatalf("%+v, operation %d", c, n)
			}
		}
	}
	for _, what := range []string{"create", "write", "sync", "rename", "sync of a folder", "write of the manifest", "list"} {
		if seen[what] == 0 {
			t.Errorf("vacuous: no %s has failed", what)
		}
	}
	t.Log(seen)
}

// strike sweeps 30 operations into an archive that has some already, and reports
// whether something has failed.
func strike(t *testing.T, f *faultyFiles, reopen bool) (struck bool) {
	t.Helper()
	dir := t.TempDir()
	earlier, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	mustKeep(t, earlier, operations(2))
	_ = earlier.Close()
	s := memstore.New()
	e := once.New(s, once.Config{Retain: time.Hour})
	want := map[string]bool{}
	for _, op := range operations(2) {
		want[op.Key] = true
	}
	for i := range 30 {
		op := once.Operation{Scope: "s", Key: fmt.Sprint(i)}
		if _, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (int, error) { return i, nil }); err != nil {
			t.Fatal(err)
		}
		want[op.Key] = true
	}
	s.Advance(2 * time.Hour)
	var w *Writer
	sweep := func(fs files) error {
		if w == nil {
			opened, err := open(dir, fs)
			if err != nil {
				return err
			}
			w = opened
		}
		sweeper := retention.New(s, retention.Config{Batch: 10, Rate: 1 << 30, Archive: w.Write})
		_, err = sweeper.Sweep(t.Context())
		return err
	}
	defer func() {
		if w != nil {
			_ = w.Close()
		}
	}()
	first := sweep(f)
	if first != nil && !errors.Is(first, errDisk) {
		t.Errorf("the first sweep: %v", first)
	}
	missing(t, dir, s, want) // at this moment, too
	f.heal()
	if reopen && w != nil {
		_ = w.Close()
		w = nil
	}
	if err := sweep(f); err != nil {
		t.Errorf("the sweep after %v: %v", first, err)
	}
	missing(t, dir, s, want)
	if list, damaged, err := Verify(t.Context(), dir); err != nil || len(damaged) > 0 {
		t.Errorf("after %v: %d segments, damaged %+v, %v", first, len(list), damaged, err)
	}
	return first != nil
}

// missing looks for every operation, in the store and in the archive.
func missing(t *testing.T, dir string, s *memstore.Store, want map[string]bool) {
	t.Helper()
	found := map[string]bool{}
	for e, err := range Records(dir) {
		if err != nil {
			t.Errorf("what is listed cannot be read: %v", err)
		}
		found[e.Key] = true
	}
	for _, key := range remaining(t, s) {
		found[key] = true
	}
	for key := range want {
		if !found[key] {
			t.Errorf("%q is neither in the store nor in the archive", key)
		}
	}
}

// TestGivenUp: a caller who is gone keeps nothing.
func TestGivenUp(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mustOpen(t, dir).Write(ctx, operations(1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*"+segmentEnd)); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if _, err := Open(filepath.Join(os.DevNull, "x")); err == nil {
		t.Error("an archive in a folder that cannot be")
	}
}
