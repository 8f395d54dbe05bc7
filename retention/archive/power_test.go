package archive

import (
	"bytes"
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var errPower = errors.New("the power is gone")

// flaky is a disk that forgets. The files are real, and what can be read of them is what
// has been written; beside that, it keeps what would be left after a power cut: the
// contents of a file are those of its last Sync, the names in a folder those of its last
// syncDir. From the N-th change on, everything fails.
type flaky struct {
	osFiles
	mu      sync.Mutex
	changes int // so far
	cutAt   int // the change that is not made any more; 0: none
	live    map[string]*inode
	kept    map[string]*inode
	met     map[string]int // what the cut has met, written and not flushed
}

// inode is a file or a folder.
type inode struct {
	folder bool
	kept   []byte // of a file
}

// newFlaky finds below base what is on the disk, flushed.
func newFlaky(t *testing.T, base string, met map[string]int) *flaky {
	t.Helper()
	f := &flaky{live: map[string]*inode{}, kept: map[string]*inode{}, met: met}
	err := filepath.WalkDir(base, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || path == base {
			return err
		}
		n := &inode{folder: d.IsDir()}
		if !n.folder {
			n.kept, err = os.ReadFile(path)
		}
		f.live[path], f.kept[path] = n, n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// change does something to the disk, if there is power.
func (f *flaky) change(it func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes++; f.cutAt > 0 && f.changes >= f.cutAt {
		return errPower
	}
	return it()
}

func (f *flaky) cut() bool { return f.cutAt > 0 && f.changes >= f.cutAt }

// made remembers what a new name stands for.
func (f *flaky) made(path string, folder bool, err error) error {
	if err == nil && f.live[path] == nil {
		f.live[path] = &inode{folder: folder}
	}
	return err
}

func (f *flaky) mkdir(path string) error {
	return f.change(func() error { return f.made(path, true, f.osFiles.mkdir(path)) })
}

func (f *flaky) opened(path string, open func(string) (file, error)) (got file, err error) {
	err = f.change(func() error {
		got, err = open(path)
		return f.made(path, false, err)
	})
	if err != nil {
		return nil, err
	}
	return flakyFile{got, f, f.live[path]}, nil
}

func (f *flaky) open(path string) (file, error)   { return f.opened(path, f.osFiles.open) }
func (f *flaky) create(path string) (file, error) { return f.opened(path, f.osFiles.create) }

func (f *flaky) rename(from, to string) error {
	return f.change(func() error {
		err := f.osFiles.rename(from, to)
		if err == nil {
			f.live[to] = f.live[from]
			delete(f.live, from)
		}
		return err
	})
}

func (f *flaky) remove(path string) error {
	return f.change(func() error {
		delete(f.live, path)
		return f.osFiles.remove(path)
	})
}

func (f *flaky) syncDir(dir string) error {
	return f.change(func() error {
		for path := range f.kept {
			if filepath.Dir(path) == dir && f.live[path] == nil {
				delete(f.kept, path)
			}
		}
		for path, n := range f.live {
			if filepath.Dir(path) == dir {
				f.kept[path] = n
			}
		}
		return nil
	})
}

// flushFolders lets time pass: who is killed while he makes folders leaves them to the
// disk's own pace.
func (f *flaky) flushFolders() {
	for path, n := range f.live {
		if n.folder {
			f.kept[path] = n
		}
	}
}

type flakyFile struct {
	file
	f *flaky
	n *inode
}

func (f flakyFile) Write(b []byte) (n int, err error) {
	err = f.f.change(func() error {
		n, err = f.file.Write(b)
		return err
	})
	return n, err
}

func (f flakyFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.f.change(func() error {
		n, err = f.file.WriteAt(b, at)
		return err
	})
	return n, err
}

func (f flakyFile) Sync() error {
	return f.f.change(func() (err error) {
		f.n.kept, err = io.ReadAll(io.NewSectionReader(f.file, 0, 1<<62))
		return err
	})
}

// luck is what becomes of that which was not flushed: a disk may have written any of it.
type luck struct {
	names    bool   // are there
	contents string // "lost", "half", "zeros", "there"
}

var lucks = []luck{{false, "lost"}, {true, "lost"}, {true, "half"}, {true, "zeros"}, {false, "there"}}

func (l luck) of(kept, live []byte) []byte {
	if l.contents == "there" {
		return live
	}
	if l.contents == "lost" || !bytes.HasPrefix(live, kept) {
		return kept
	}
	half := bytes.Clone(live[:(len(kept)+len(live)+1)/2])
	if l.contents == "zeros" {
		clear(half[len(kept):])
	}
	return half
}

// restart makes in to, which is empty, what is found below from when the power is back.
func (f *flaky) restart(t *testing.T, l luck, from, to string) {
	t.Helper()
	names := f.kept
	if l.names {
		names = f.live
	}
	for path := range f.live {
		if f.kept[path] != f.live[path] {
			f.met["a name of "+kind(path)]++
		}
	}
	for path, n := range names {
		within, err := filepath.Rel(from, path)
		if err != nil {
			t.Fatal(err)
		}
		for above := filepath.Dir(path); above != from; above = filepath.Dir(above) {
			if names[above] == nil {
				within = "" // the file is not found
			}
		}
		switch {
		case within == "":
		case n.folder:
			err = os.MkdirAll(filepath.Join(to, within), 0o700)
		default:
			live := f.written(t, n)
			if !bytes.Equal(live, n.kept) {
				f.met["the contents of "+kind(path)]++
			}
			if err = os.MkdirAll(filepath.Join(to, filepath.Dir(within)), 0o700); err == nil {
				err = os.WriteFile(filepath.Join(to, within), l.of(n.kept, live), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// written returns what is in a file, flushed or not. A file of which the disk has kept a
// name that it no longer has is read under the new one.
func (f *flaky) written(t *testing.T, n *inode) []byte {
	t.Helper()
	for path, live := range f.live {
		if live == n {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	return n.kept // removed
}

func kind(path string) string {
	switch name := filepath.Base(path); {
	case strings.HasSuffix(name, temporary):
		return "a temporary file"
	case strings.HasSuffix(name, segmentEnd):
		return "a segment"
	case name == manifestName:
		return "the manifest"
	}
	return "a folder"
}

// exists reports whether there is an archive at all.
func exists(t *testing.T, dir string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(dir, manifestName))
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
