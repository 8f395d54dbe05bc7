package archive

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/base/lockedfile"
)

// TestNoSecondWriter: whatever is removed beside the manifest, and also after the manifest was
// written anew, an archive has one writer.
func TestNoSecondWriter(t *testing.T) {
	if !lockedfile.Supported {
		t.Skip("lockedfile cannot lock files on " + runtime.GOOS)
	}
	dir := t.TempDir()
	w, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "another process writes to the directory") || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("at first")
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	refused("without a lock file")
	before := w.manifest
	w.broken = true // so that the manifest is written anew
	mustKeep(t, w, operations(1))
	if w.manifest == before {
		t.Error("vacuous: the manifest is the same file")
	}
	refused("after the manifest was replaced")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestTheManifestIsNoLink: a symbolic link at its path leads to no other file.
func TestTheManifestIsNoLink(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink(target, filepath.Join(dir, manifestName))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Error(err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}
