package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

// runner runs draws, and remembers which of them have failed.
type runner struct {
	temp     string
	sample   string // the tree that chooses samples; "" runs tests completely
	binaries *tier.Binaries

	mu     sync.Mutex
	failed []string
}

func newRunner(sample string) (*runner, error) {
	temp, err := os.MkdirTemp("", "prove")
	return &runner{temp: temp, sample: sample, binaries: tier.NewBinaries(temp)}, err
}

func (r *runner) close() { _ = os.RemoveAll(r.temp) }

// verdict returns the error of the run.
func (r *runner) verdict(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(r.failed) > 0 {
		return errors.New("failed in:\n" + strings.Join(r.failed, "\n"))
	}
	return nil
}

// workers is how many draws run at the same time. Most tests wait for servers and killed processes.
const workers = 2

// runAll runs draws in their order, and returns those that it has not begun when end is reached. A zero end means never.
func (r *runner) runAll(ctx context.Context, order draws, end time.Time) (idle draws) {
	next := make(chan draw)
	var ended sync.WaitGroup
	for range workers {
		ended.Go(func() {
			for d := range next {
				r.run(ctx, d)
			}
		})
	}
	for i, d := range order {
		if ctx.Err() != nil || (!end.IsZero() && time.Now().After(end)) {
			idle = order[i:]
			break
		}
		next <- d
	}
	close(next)
	ended.Wait()
	return idle
}

// mutants runs the test that kills mutants, until end.
func (r *runner) mutants(ctx context.Context, d draw, end time.Time) {
	if len(d.names) > 0 && ctx.Err() == nil {
		r.run(ctx, d, testenv.MutantsVariable+"=changed", testenv.UntilVariable+"="+end.Format(time.RFC3339))
	}
}

// run runs one draw in the directory of its package.
func (r *runner) run(ctx context.Context, d draw, env ...string) {
	began := time.Now()
	out, err := r.start(ctx, d, env)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed = append(r.failed, d.String())
		fmt.Fprintf(os.Stdout, "%s\nFAIL %s: %v\n", out, d, err)
		return
	}
	fmt.Fprintf(os.Stdout, "ok   %.1f s  %s\n", time.Since(began).Seconds(), d)
}

func (r *runner) start(ctx context.Context, d draw, env []string) ([]byte, error) {
	binary, err := r.binaries.Build(ctx, d.dir)
	if err != nil {
		return nil, err
	}
	proved, err := os.CreateTemp(r.temp, "proved")
	if err != nil {
		return nil, err
	}
	_ = proved.Close()
	cmd := exec.CommandContext(ctx, binary, "-test.count=1", "-test.timeout=2h", "-test.run=^("+strings.Join(d.names, "|")+")$")
	cmd.Dir, cmd.Env = d.dir, append(environment(r.sample, proved.Name()), env...)
	cmd.WaitDelay = 10 * time.Second // a server that the test has started may hold its output
	if out, err := cmd.CombinedOutput(); err != nil {
		return out, err
	}
	return nil, d.ran(proved.Name())
}

// ran returns an error unless all tests of a draw have written to file that they ran. A test that the compiler leaves out has not
// written.
func (d draw) ran(file string) error {
	told, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var missing []string
	for _, name := range d.names {
		if !slices.Contains(strings.Fields(string(told)), name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("listed, but they did not run: %q", missing)
	}
	return nil
}
