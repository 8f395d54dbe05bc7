package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/base/lockedfile"
)

// TestNoSecondOwner: whatever is removed beside a journal, and also while it is written anew,
// it has one owner.
func TestNoSecondOwner(t *testing.T) {
	path := newPath(t)
	d := &secondOwner{t: t}
	f, err := open(path, Config{Compact: 1}, d)
	if err != nil {
		t.Fatal(err)
	}
	mustBegin(t, f, "first")
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if name := filepath.Join(filepath.Dir(path), e.Name()); name != path {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused(t, path)
	for i := range 20 {
		in := mustBegin(t, f, fmt.Sprint(i))
		if err := f.End(t.Context(), in, ProofAnswered); err != nil {
			t.Fatal(err)
		}
	}
	if d.renames < 2 {
		t.Errorf("vacuous: the file was written anew %d times", d.renames)
	}
	refused(t, path)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, path, "first")
	mustOpen(t, path)
}

func refused(t *testing.T, path string) {
	t.Helper()
	if f, err := Open(path, Config{}); !errors.Is(err, lockedfile.ErrHeld) || !strings.Contains(err.Error(), "Try: ") {
		t.Fatalf("a second owner: %v, %v", f, err)
	}
}

// secondOwner tries to open the journal before and after each change of its file.
type secondOwner struct {
	osDisk

	t       *testing.T
	renames int
}

func (d *secondOwner) rename(from, to string) error {
	refused(d.t, to)
	refused(d.t, from)
	err := d.osDisk.rename(from, to)
	refused(d.t, to)
	d.renames++
	return err
}

// TestLinksAreNotFollowed: a symbolic link at any path that a journal uses leads to no other
// file.
func TestLinksAreNotFollowed(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	for _, suffix := range []string{"", ".lock", ".tmp"} {
		path := newPath(t)
		if err := errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink(target, path+suffix)); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, Config{Compact: 1})
		switch {
		case suffix == "" && (err == nil || !strings.Contains(err.Error(), "symbolic link")):
			t.Errorf("%v", err)
		case suffix != "" && err != nil:
			t.Errorf("a link at %s: %v", suffix, err)
		case suffix != "":
			mustBegin(t, f, "k")
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			wantOpen(t, path, "k")
		}
		if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
			t.Errorf("a link at %q: %q, %v", suffix, text, err)
		}
	}
}

// TestAJournalThatWasTakenAway takes no intent: what is written to a removed file is lost. And
// it does not replace the journal that another process has begun at its path.
func TestAJournalThatWasTakenAway(t *testing.T) {
	for name, disturb := range map[string]func(*testing.T, string){
		"removed": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func(t *testing.T, path string) {
			if err := os.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			other := mustOpen(t, path)
			mustBegin(t, other, "of another process")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			f := mustOpen(t, path)
			in := mustBegin(t, f, "before")
			disturb(t, path)
			if err := f.rewrite(); err == nil {
				t.Error("it was written anew")
			}
			if _, err := f.Begin(t.Context(), intentOf("after")); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "removed") {
				t.Errorf("an intent was taken: %v", err)
			}
			if err := f.End(t.Context(), in, ProofAnswered); !errors.Is(err, ErrBroken) {
				t.Error(err)
			}
			if name == "replaced" {
				wantOpen(t, path, "of another process")
			}
		})
	}
}
