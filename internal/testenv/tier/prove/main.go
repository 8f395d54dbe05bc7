// Command prove is make prove: it runs the tests of that tier within a time limit.
//
// The core is always run completely. Then the command draws from the other tests, a few of one package at a time, until half of
// the remaining time is used. The rest of the time is for the mutants of what has changed. HEAD's tree is the seed, so the
// same tree draws the same tests. Tests that have begun run to their end, and tests that were not drawn are printed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

func main() {
	list := flag.Bool("n", false, "print the tests of make prove, one on each line, and run none")
	all := flag.Bool("all", false, "run all of them, each on all its databases and at all its points, however long it takes; the mutants are left to make mutants")
	budget := flag.Duration("budget", 15*time.Minute, "how long to begin new tests")
	flag.Parse()
	tests, err := tier.Read(".")
	if err != nil {
		fail(err)
	}
	p := newPlan(tests)
	if *list {
		for _, d := range append(p.core, p.others...) {
			for _, name := range d.names {
				fmt.Fprintln(os.Stdout, d.dir, name, d.kind)
			}
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, p, *budget, *all)
	stop()
	if err != nil {
		fail(err)
	}
}

// run runs the core, then the drawn tests, and then the mutants.
func run(ctx context.Context, p plan, budget time.Duration, all bool) error {
	began := time.Now()
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD^{tree}").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	tree := strings.TrimSpace(string(head))
	sample := tree
	if all {
		sample = "" // every cell and every point
	}
	r, err := newRunner(sample)
	if err != nil {
		return err
	}
	defer r.close()
	r.runAll(ctx, p.core, time.Time{})
	fmt.Fprintf(os.Stdout, "--- core: %d tests, %.0f s\n", p.core.tests(), time.Since(began).Seconds())
	others := p.draws(tree)
	if all {
		r.runAll(ctx, others, time.Time{})
		return r.verdict(ctx)
	}
	left := max(0, budget-time.Since(began))
	idle := r.runAll(ctx, others, time.Now().Add(left/2))
	fmt.Fprintf(os.Stdout, "--- drawn: %d of %d other tests; not drawn:\n", others.tests()-idle.tests(), others.tests())
	for _, d := range idle {
		fmt.Fprintln(os.Stdout, "   ", d)
	}
	r.mutants(ctx, p.mutants, began.Add(budget))
	return r.verdict(ctx)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "make prove:", err)
	os.Exit(1)
}

// environment returns the environment for the tests of make prove.
func environment(sample, proved string) []string {
	return append(os.Environ(), testenv.TierVariable+"="+string(testenv.InProve), testenv.SampleVariable+"="+sample, testenv.ProvedVariable+"="+proved)
}
