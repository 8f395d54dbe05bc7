package bugbank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// Bank is mutants of the tree at Root.
type Bank struct {
	Root    string
	Mutants []Mutant

	ids    map[string]string  // of the mutants that share builds, by name
	places map[string][]place // of all mutants, by name
	temp   string
	shared sync.Map // by target, a *testBuild
}

// testBuild is the tests of one package with mutants in it, and how they do without any of them.
type testBuild struct {
	once   sync.Once
	binary string
	err    error // it does not compile; each mutant is then built alone

	control sync.Once
	passed  map[string]time.Duration // how long each test took without a bug
	said    []byte
	failed  error
}

// New returns a bank of mutants of the tree at root. The caller closes it.
func New(root string, mutants ...Mutant) (*Bank, error) {
	s, err := loadTree(root)
	if err != nil {
		return nil, err
	}
	b := &Bank{Root: root, Mutants: mutants, ids: map[string]string{}, places: map[string][]place{}}
	var errs []error
	for i, m := range mutants {
		places, err := s.places(m)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.places[m.Name] = places
		if shareable(places) {
			b.ids[m.Name] = strconv.Itoa(i)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	b.temp, err = os.MkdirTemp("", "bugbank")
	return b, err
}

// Close removes what was built.
func (b *Bank) Close() error { return os.RemoveAll(b.temp) }

// Kill runs the tests of m, one of the bank's mutants. It returns which one killed it.
func (b *Bank) Kill(ctx context.Context, m Mutant) (Killer, error) {
	var out []byte
	for _, k := range m.Tests {
		shared := b.build(ctx, k.target())
		usual, err := b.usual(ctx, shared, k)
		if err != nil {
			return k, err
		}
		binary, id := shared.binary, b.ids[m.Name]
		if id == "" || shared.err != nil {
			if binary, err = b.compile(ctx, k.target(), alone(b.places[m.Name])); err != nil {
				return k, fmt.Errorf("%s: did not get as far as the test\n%w", k, err)
			}
		}
		killed, output, err := b.run(ctx, binary, id, k, usual)
		if id == "" || shared.err != nil {
			_ = os.Remove(binary)
		}
		if err != nil || killed {
			return k, err
		}
		out = output
	}
	return Killer{}, fmt.Errorf("%q lives: %v passed with the bug in place\n%s", m.Name, m.Tests, tail(out))
}

// build compiles the tests of a package, with all mutants in it that share a build and that
// they are to kill.
func (b *Bank) build(ctx context.Context, t target) *testBuild {
	v, _ := b.shared.LoadOrStore(t, new(testBuild))
	c := v.(*testBuild) //nolint:forcetypeassert // nothing else is stored
	c.once.Do(func() {
		here := map[string][]place{}
		for _, m := range b.Mutants {
			if id := b.ids[m.Name]; id != "" && slices.ContainsFunc(m.Tests, func(k Killer) bool { return k.target() == t }) {
				here[id] = b.places[m.Name]
			}
		}
		if c.binary, c.err = b.compile(ctx, t, together(here)); c.err != nil {
			fmt.Fprintf(os.Stderr, "bugbank: %s: the mutants of a shared build do not compile together, each gets its own:\n%v\n", filepath.Join(t.module, t.pkg), c.err)
			if c.binary, c.failed = b.compile(ctx, t, nil); c.failed != nil {
				c.binary = ""
			}
		}
	})
	return c
}

// compile compiles the tests of a package.
func (b *Bank) compile(ctx context.Context, t target, files overlay) (string, error) {
	dir, err := os.MkdirTemp(b.temp, "build")
	if err != nil {
		return "", err
	}
	overlay, err := files.write(b.Root, dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "tests")
	// A linker is quicker without the names for debuggers.
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-ldflags=-s -w", "-o", binary, "./"+t.pkg)
	cmd.Dir = t.dir(b.Root)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, tail(out))
	}
	return binary, nil
}

// Times that a test may take with a bug in place, beside five times its own without: that
// one ends which hangs.
const (
	patience = time.Minute
	hangs    = 20 * time.Second
)

// run runs a test, which usually takes so long, with a bug in place.
func (b *Bank) run(ctx context.Context, binary, id string, k Killer, usual time.Duration) (killed bool, out []byte, err error) {
	limit := patience
	if k.Hangs {
		limit = hangs
	}
	// The first failure is enough.
	out, err = b.start(ctx, binary, id, k.target(), "^"+k.Test+"$", limit+5*usual, "-test.failfast")
	var exit *exec.ExitError
	switch {
	case err == nil && !bytes.Contains(out, []byte("--- PASS: "+k.ran())):
		return false, out, fmt.Errorf("%s: no such test ran\n%s", k, tail(out))
	case err == nil:
		return false, out, nil
	case !errors.As(err, &exit):
		return false, out, err
	case !bytes.Contains(out, []byte("=== RUN   "+k.top()+"\n")):
		return false, out, fmt.Errorf("%s: did not get as far as the test\n%s", k, tail(out))
	}
	return true, out, nil
}

func (b *Bank) start(ctx context.Context, binary, id string, t target, tests string, limit time.Duration, flags ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute) // if the test does not even end by its own limit
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(flags, "-test.v", "-test.count=1", "-test.timeout="+limit.String(), "-test.run="+tests)...)
	// That it fails is enough. The test that is to fail runs whole.
	cmd.Env = append(os.Environ(), append(testenv.ByHand(), variable+"="+id, "RAPID_SHRINKTIME=0s")...)
	cmd.Dir = filepath.Join(t.dir(b.Root), filepath.FromSlash(t.pkg))
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}

// usual runs the tests that are to kill without a bug, those of a package together and
// once, and returns how long k took. A test that fails anyway, because a server is missing
// or the machine is too slow, kills nothing.
func (b *Bank) usual(ctx context.Context, c *testBuild, k Killer) (time.Duration, error) {
	c.control.Do(func() {
		if c.failed == nil {
			c.passed, c.said, c.failed = b.unharmed(ctx, c.binary, k.target())
		}
	})
	if c.failed != nil {
		return 0, c.failed
	}
	if took, passed := c.passed[k.top()]; passed {
		return took, nil
	}
	// Together the killers of a package make a machine busy. One that needs it quiet is run alone.
	alone, said, err := b.pass(ctx, c.binary, k.target(), "^"+k.top()+"$")
	if err != nil {
		return 0, err
	}
	took, passed := alone[k.top()]
	if !passed {
		return 0, fmt.Errorf("%s does not pass without the bug, so that it kills nothing\n%s", k, failure(said))
	}
	return took, nil
}

// unharmed runs all killers of a package.
func (b *Bank) unharmed(ctx context.Context, binary string, t target) (passed map[string]time.Duration, out []byte, err error) {
	var tests []string
	for _, m := range b.Mutants {
		for _, k := range m.Tests {
			if k.target() == t {
				tests = append(tests, "^"+k.Test+"$")
			}
		}
	}
	slices.Sort(tests)
	return b.pass(ctx, binary, t, strings.Join(slices.Compact(tests), "|"))
}

// pass runs tests without a bug, and returns which of them have passed, and how long that took.
func (b *Bank) pass(ctx context.Context, binary string, t target, tests string) (passed map[string]time.Duration, out []byte, err error) {
	const endless = time.Hour
	out, err = b.start(ctx, binary, "", t, tests, endless)
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

// failure is what a test has said from the first failure on.
func failure(b []byte) []byte {
	at := bytes.Index(b, []byte("--- FAIL"))
	if at < 0 {
		return tail(b)
	}
	const keep = 4000
	return b[at:min(len(b), at+keep)]
}

func tail(b []byte) []byte {
	const keep = 2000
	return b[max(0, len(b)-keep):]
}
