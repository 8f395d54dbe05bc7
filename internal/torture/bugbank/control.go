package bugbank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// control is how the killers of a package fare without a bug.
type control struct {
	run    sync.Once
	passed map[string]time.Duration // how long each took
	said   []byte
	err    error
}

// usual runs the tests that are to kill without a bug, those of a package together and
// once, and returns how long k took. A test that fails anyway, because a server is missing
// or the machine is too slow, kills nothing.
func (b *Bank) usual(ctx context.Context, k Killer) (time.Duration, error) {
	of := Killer{Module: k.Module, Package: k.Package}
	v, _ := b.controls.LoadOrStore(of, new(control))
	c := v.(*control) //nolint:forcetypeassert // nothing else is stored
	c.run.Do(func() { c.passed, c.said, c.err = b.unharmed(ctx, of) })
	if c.err != nil {
		return 0, c.err
	}
	took, passed := c.passed[k.top()]
	if !passed {
		return 0, fmt.Errorf("%s does not pass without the bug, so that it kills nothing\n%s", k, tail(c.said))
	}
	return took, nil
}

// unharmed runs all killers of a package.
func (b *Bank) unharmed(ctx context.Context, of Killer) (passed map[string]time.Duration, out []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var tests []string
	for _, m := range b.Mutants {
		for _, k := range m.Tests {
			if k.Module == of.Module && k.Package == of.Package {
				tests = append(tests, "^"+k.Test+"$")
			}
		}
	}
	slices.Sort(tests)
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=9m", "-v", "-run", strings.Join(slices.Compact(tests), "|"), "./"+of.Package)
	cmd.Dir = filepath.Join(b.Root, filepath.FromSlash(of.Module))
	out, err = cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, out, err
	}
	passed = map[string]time.Duration{}
	for _, match := range passes.FindAllSubmatch(out, -1) {
		took, err := time.ParseDuration(string(match[2]))
		if err != nil {
			return nil, out, err
		}
		passed[string(match[1])] = took
	}
	return passed, out, nil
}

var passes = regexp.MustCompile(`(?m)^--- PASS: (\S+) \((\S+)\)$`)

// top is the name of the test, without those in it.
func (k Killer) top() string {
	top, _, _ := strings.Cut(k.Test, "$/")
	return top
}

// ran reports whether a test was begun.
func ran(out []byte, test string) bool { return bytes.Contains(out, []byte("=== RUN   "+test+"\n")) }
