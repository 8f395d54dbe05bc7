package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

var errDisk = errors.New("no space left on device")

// faultyDisk fails at the N-th operation, and from then on if it stays broken. A write
// that fails has written a part, and anything else that fails may have been done.
type faultyDisk struct {
	osDisk

	nth   int
	stays bool
	after bool // what fails has been done
	seen  map[string]int
	last  string // what has failed
}

func (d *faultyDisk) pass(what string) error {
	d.nth--
	if d.nth == 0 || d.nth < 0 && d.stays {
		d.seen[what]++
		d.last = what
		return fmt.Errorf("%s: %w", what, errDisk)
	}
	return nil
}

func (d *faultyDisk) do(what string, it func() error) error {
	fault := d.pass(what)
	if fault != nil && !d.after {
		return fault
	}
	return errors.Join(it(), fault)
}

func (d *faultyDisk) open(path string) (file, error) {
	out, err := d.osDisk.open(path)
	if err != nil {
		return nil, err
	}
	return faultyFile{out, d}, nil
}

func (d *faultyDisk) create(path string) (out file, err error) {
	if err := d.do("create", func() error {
		out, err = d.osDisk.create(path)
		return err
	}); err != nil {
		if out != nil {
			_ = out.Close()
		}
		return nil, err
	}
	return faultyFile{out, d}, nil
}

func (d *faultyDisk) rename(from, to string) error {
	return d.do("rename", func() error { return d.osDisk.rename(from, to) })
}

func (d *faultyDisk) syncDir(path string) error {
	return d.do("sync of the folder", func() error { return d.osDisk.syncDir(path) })
}

type faultyFile struct {
	file

	d *faultyDisk
}

func (f faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.d.pass("read"); err != nil {
		return 0, err
	}
	return f.file.ReadAt(b, at)
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.d.pass("write"); err != nil {
		part := len(b) / 2
		if f.d.after {
			part = len(b)
		}
		n, _ := f.file.WriteAt(b[:part], at)
		return n, err
	}
	return f.file.WriteAt(b, at)
}

func (f faultyFile) Truncate(size int64) error {
	return f.d.do("truncate", func() error { return f.file.Truncate(size) })
}

func (f faultyFile) Sync() error { return f.d.do("sync", f.file.Sync) }

// TestFaultsOfTheDiskLoseNothing makes the N-th operation on the disk fail, N = 1, 2, ... until a client
// survives. What Begin has returned for is in the file; a flush that has failed ends all
// work; and a process that opens the journal afterwards can work, and finds what was open.
func TestFaultsOfTheDiskLoseNothing(t *testing.T) {
	seen := map[string]int{}
	for _, c := range []struct{ stays, after bool }{{}, {after: true}, {stays: true}, {stays: true, after: true}} {
		for n := 1; ; n++ {
			if n > 500 {
				t.Fatal("no end after 500 operations")
			}
			d := &faultyDisk{nth: n, stays: c.stays, after: c.after, seen: seen}
			if !strike(t, d) {
				t.Logf("%+v: %d operations", c, n-1)
				break
			}
			if t.Failed() {
				t.Fatalf("%+v, operation %d: %s", c, n, d.last)
			}
		}
	}
	for _, what := range []string{"read", "create", "write", "sync", "rename", "sync of the folder", "truncate"} {
		if seen[what] == 0 {
			t.Errorf("vacuous: no %s has failed", what)
		}
	}
	t.Log(seen)
}

func strike(t *testing.T, d *faultyDisk) (struck bool) {
	t.Helper()
	path := newPath(t)
	earlier := mustOpen(t, path)
	mustBegin(t, earlier, "earlier")
	_ = earlier.Close()
	want, maybe := map[string]bool{"earlier": true}, map[string]bool{}
	f, err := open(path, Config{Compact: 700}, d)
	for i := range 8 {
		if err != nil {
			break
		}
		key := fmt.Sprint(i)
		in, failed := f.Begin(t.Context(), intentOf(key))
		if failed != nil {
			if !errors.Is(failed, errDisk) && !errors.Is(failed, ErrBroken) || !strings.Contains(failed.Error(), "Try: ") {
				t.Errorf("%v", failed)
			}
			maybe[key] = errors.Is(failed, ErrBroken)
			if d.last == "sync" && !errors.Is(failed, ErrBroken) {
				t.Errorf("after a flush that has failed: %v", failed)
			}
			continue
		}
		want[key] = true
		if i%3 == 1 {
			_ = f.End(t.Context(), in, ProofAnswered) // what fails here shows at the next intent
			delete(want, key)
			maybe[key] = true // its request is sent once more, which does no harm
		}
		has(t, path, d.last, want, maybe) // as if it were killed now
	}
	if f != nil {
		_ = f.Close()
	}
	struck = d.last != ""
	d.nth, d.stays = 0, false
	has(t, path, d.last, want, maybe)
	again, err := open(path, Config{}, d)
	if err != nil {
		t.Fatalf("after %s: %v", d.last, err)
	}
	mustBegin(t, again, "next")
	want["next"] = true
	has(t, path, d.last, want, maybe)
	_ = again.Close()
	return struck
}

// has looks for what must be open, and that nothing else is but what may be.
func has(t *testing.T, path, fault string, want, maybe map[string]bool) {
	t.Helper()
	list, _, err := Read(path)
	if err != nil {
		t.Fatalf("after %q: %v", fault, err)
	}
	keys := keysOf(list)
	for key := range want {
		if !slices.Contains(keys, key) {
			t.Errorf("after %q: %s is lost: %v", fault, key, keys)
		}
	}
	for _, key := range keys {
		if !want[key] && !maybe[key] {
			t.Errorf("after %q: %s is open, and should not be: %v, %v", fault, key, want, slices.Sorted(maps.Keys(maybe)))
		}
	}
}

// TestRoomAgain: a full disk refuses intents, and no longer than it is full.
func TestRoomAgain(t *testing.T) {
	path := newPath(t)
	d := &faultyDisk{seen: map[string]int{}}
	f, err := open(path, Config{}, d)
	if err != nil {
		t.Fatal(err)
	}
	mustBegin(t, f, "a")
	d.nth = 1
	if _, err := f.Begin(t.Context(), intentOf("b")); !errors.Is(err, errDisk) || errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "was not sent") {
		t.Errorf("%v", err)
	}
	if d.last != "write" {
		t.Fatalf("vacuous: %q has failed", d.last)
	}
	mustBegin(t, f, "c")
	mustBegin(t, f, "b")
	_ = f.Close()
	wantOpen(t, path, "a", "c", "b")
}

// TestAFailedFlushIsNotTrusted: the second one would succeed, and mean nothing.
func TestAFailedFlushIsNotTrusted(t *testing.T) {
	path := newPath(t)
	d := &faultyDisk{seen: map[string]int{}}
	f, err := open(path, Config{}, d)
	if err != nil {
		t.Fatal(err)
	}
	a := mustBegin(t, f, "a")
	d.nth = 2
	if _, err := f.Begin(t.Context(), intentOf("b")); !errors.Is(err, ErrBroken) || d.last != "sync" {
		t.Fatalf("%v at %q", err, d.last)
	}
	if _, err := f.Begin(t.Context(), intentOf("b")); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	if err := f.End(t.Context(), a, ProofAnswered); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	if _, err := f.List(t.Context()); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	wantOpen(t, path, "a")
	_ = f.Close()
	files := &countingDisk{}
	again, err := open(path, Config{}, files)
	if err != nil || files.files != 1 || files.syncs != 1 {
		t.Fatalf("not written anew: %v, %+v", err, files)
	}
	_ = again.Close()
	wantOpen(t, path, "a")
}
