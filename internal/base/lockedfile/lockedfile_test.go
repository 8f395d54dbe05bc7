package lockedfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestOpenNeverFollowsALinkOrTruncates(t *testing.T) {
	need(t)
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link); err == nil || !strings.Contains(err.Error(), "symbolic link") || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("a link was opened: %v", err)
	}
	if _, err := Create(link); err == nil {
		t.Error("a link was written through")
	}
	f, err := Open(target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(target); !errors.Is(err, ErrHeld) {
		t.Errorf("opened twice: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a folder was opened")
	}
}

// TestTheLockOfAReplacedFileIsNone: who locks what is no longer at its path has locked nothing.
func TestTheLockOfAReplacedFileIsNone(t *testing.T) {
	need(t)
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // an opener, before it locks
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	replacement, err := Create(path + ".tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer replacement.Close()
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
	if current, err := take(f, path); current || err != nil {
		t.Errorf("current: %v, %v", current, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if current, err := take(f, path); current || err != nil {
		t.Errorf("after it was removed: %v, %v", current, err)
	}
}

// TestOneOwnerAtATime counts in a file that each owner replaces: a count that two owners have
// read is lost.
func TestOneOwnerAtATime(t *testing.T) {
	need(t)
	path := filepath.Join(t.TempDir(), "count")
	const owners, each = 8, 50
	var all sync.WaitGroup
	for range owners {
		all.Go(func() {
			for range each {
				if err := count(path); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != fmt.Sprint(owners*each) {
		t.Errorf("%s, %v, want %d", text, err, owners*each)
	}
}

func count(path string) error {
	var old *os.File
	for old == nil {
		f, err := Open(path)
		if err != nil && !errors.Is(err, ErrHeld) {
			return err
		}
		old = f
		runtime.Gosched()
	}
	defer old.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var n int
	_, _ = fmt.Sscan(string(text), &n) // empty at first
	replacement, err := Create(path + ".tmp")
	if err != nil {
		return err
	}
	defer replacement.Close()
	if _, err := fmt.Fprint(replacement, n+1); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func need(t *testing.T) {
	t.Helper()
	if !Supported {
		t.Skip("lockedfile cannot lock files on " + runtime.GOOS)
	}
}
