// Package bugbank keeps seeded bugs and runs the tests that must catch them.
//
// A mutant is an edit of one or two source files that plants a bug which designs
// of this kind really have. It is compiled with "go test -overlay", so that the
// tree is never touched. The named test must fail; one that passes, or does not
// compile, or is not there, or fails without the bug as well, fails the bank.
package bugbank

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Mutant is one seeded bug.
type Mutant struct {
	Name  string // what is wrong, in words
	Edits []Edit
	Tests []Killer // any one of them is enough; all are run in order until one kills
}

// Edit replaces Old, which must occur exactly once in File.
type Edit struct{ File, Old, New string }

// Killer names a test: the module's folder, the package in it, and the test.
type Killer struct {
	Module, Package, Test string

	Hangs bool // with the bug in place; it is given hangs and no longer
}

// Times that a test may take with a bug in place, beside five times its own without.
const (
	patience = time.Minute
	hangs    = 20 * time.Second
)

func (k Killer) String() string { return filepath.Join(k.Module, k.Package) + " " + k.Test }

// All returns the whole bank.
func All() []Mutant {
	return slices.Concat(Mutants, engineMutants, webMutants, databaseMutants, batchMutants, pgxMutants, groupMutants, lineMutants, cacheMutants, dialectMutants, journalMutants, rpcMutants, archiveMutants, lazyMutants, openingMutants, joins)
}

// Bank is mutants of the tree at Root.
type Bank struct {
	Root    string
	Mutants []Mutant

	controls sync.Map // by package, a *control
}

// New returns a bank of mutants of the tree at root.
func New(root string, mutants ...Mutant) *Bank { return &Bank{Root: root, Mutants: mutants} }

// Kill runs the tests of m, one of the bank's mutants. It returns which one killed it,
// and how long that took, compiling and the control of its package included.
func (b *Bank) Kill(ctx context.Context, m Mutant) (Killer, time.Duration, error) {
	dir, err := os.MkdirTemp("", "bugbank")
	if err != nil {
		return Killer{}, 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := plant(b.Root, dir, m.Edits)
	if err != nil {
		return Killer{}, 0, err
	}
	began := time.Now()
	var out []byte
	for _, k := range m.Tests {
		usual, err := b.usual(ctx, k)
		if err != nil {
			return k, time.Since(began), err
		}
		killed, output, err := run(ctx, b.Root, overlay, k, usual)
		if err != nil || killed {
			return k, time.Since(began), err
		}
		out = output
	}
	return Killer{}, 0, fmt.Errorf("%q lives: %v passed with the bug in place\n%s", m.Name, m.Tests, tail(out))
}

// plant writes the edited files and the overlay that puts them in place.
func plant(root, dir string, edits []Edit) (string, error) {
	replace := map[string]string{}
	for i, e := range edits {
		path := filepath.Join(root, filepath.FromSlash(e.File))
		from := path
		if edited, again := replace[path]; again {
			from = edited
		}
		src, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := bytes.Count(src, []byte(e.Old)); n != 1 {
			return "", fmt.Errorf("%s: %d places to plant the bug in, 1 expected: the code has changed, change the mutant: %q", e.File, n, e.Old)
		}
		to := filepath.Join(dir, fmt.Sprintf("%d_%s", i, filepath.Base(path)))
		if err := os.WriteFile(to, bytes.Replace(src, []byte(e.Old), []byte(e.New), 1), 0o600); err != nil { //nolint:gosec // the paths are those of our own table
			return "", err
		}
		replace[path] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// run runs a test, which usually takes so long, with a bug in place.
func run(ctx context.Context, root, overlay string, k Killer, usual time.Duration) (killed bool, out []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	limit := patience
	if k.Hangs {
		limit = hangs
	}
	// The first failure is enough, nobody vets a bug, and a linker is quicker without
	// the names for debuggers.
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-count=1", "-timeout", (limit + 5*usual).String(), "-failfast",
		"-vet=off", "-ldflags=-s -w", "-v", "-run", "^"+k.Test+"$", "./"+k.Package)
	cmd.Env = append(os.Environ(), "RAPID_SHRINKTIME=0s") // that it fails is enough
	cmd.Dir = filepath.Join(root, filepath.FromSlash(k.Module))
	out, err = cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && !bytes.Contains(out, []byte("--- PASS: "+k.top()+" ")):
		return false, out, fmt.Errorf("%s: no such test ran\n%s", k, tail(out))
	case err == nil:
		return false, out, nil
	case !errors.As(err, &exit):
		return false, out, err
	case !ran(out, k.top()):
		return false, out, fmt.Errorf("%s: did not get as far as the test\n%s", k, tail(out))
	}
	return true, out, nil
}

func tail(b []byte) []byte {
	const keep = 2000
	return b[max(0, len(b)-keep):]
}
