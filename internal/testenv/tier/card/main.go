// Command card is make card: it breaks the library on every database for a given time, counts what it has done, and writes
// RELIABILITY.md with these numbers.
//
// Each line of the card is a test. All lines run in rounds, each round with its own seed, until the time is over. Then the running
// tests end. A test that fails is a violation, and its output stays in .cache/card. If there was a violation, the command ends
// with an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

// outputs is the directory with the output of tests that have failed.
const outputs = ".cache/card"

func main() {
	length := flag.Duration("for", time.Hour, "how long new runs begin")
	out := flag.String("o", "RELIABILITY.md", "the file of the card")
	some := flag.String("lines", "", "only lines whose test has this in its name")
	lot := flag.Bool("lot", false, "run one line once, and write nothing: HEAD's tree is the lot, and gives the seed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *lot {
		err = one(ctx)
	} else {
		err = run(ctx, *length, *out, *some)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make card:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, length time.Duration, out, some string) error {
	c := &card{began: time.Now()}
	c.until = c.began.Add(length)
	for _, l := range lines() {
		if strings.Contains(l.run, some) {
			c.rows = append(c.rows, &row{line: l, counts: map[string]int{}})
		}
	}
	if len(c.rows) == 0 {
		return fmt.Errorf("no line has %q in the name of its test", some)
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("git describe: %w", err)
	}
	c.commit = strings.TrimSpace(string(commit))
	tidy, err := c.prepare()
	if err != nil {
		return err
	}
	defer tidy()
	c.work(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.took = time.Since(c.began)
	if err := os.WriteFile(out, []byte(c.String()), 0o644); err != nil { //nolint:gosec // a page of the repository
		return err
	}
	if n := c.violations(); n > 0 {
		return fmt.Errorf("%d runs have failed. Try: read %s", n, outputs)
	}
	return nil
}

// one runs one line once. Lines that run as long as the card are not drawn.
func one(ctx context.Context) error {
	tree, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD^{tree}").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	l, seed := draw(string(tree))
	c := &card{until: time.Now(), rows: []*row{{line: l, counts: map[string]int{}}}}
	tidy, err := c.prepare()
	if err != nil {
		return err
	}
	defer tidy()
	c.one(ctx, c.rows[0], seed)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.violations() > 0 {
		return fmt.Errorf("%q has failed. Try: read %s; %s repeats it", c.rows[0].claim, outputs, strings.Join(c.rows[0].again(), " "))
	}
	return nil
}

// draw returns the line that a lot chooses, and its seed.
func draw(lot string) (line, int) {
	all := slices.DeleteFunc(lines(), func(l line) bool { return l.once })
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(lot))
	n := int(hash.Sum32() >> 1)
	return all[n%len(all)], 1 + n/len(all)%1000
}

// prepare makes the directories of a run. The caller must call tidy at the end.
func (c *card) prepare() (tidy func(), err error) {
	if c.temp, err = os.MkdirTemp("", "card"); err != nil {
		return nil, err
	}
	c.binaries = tier.NewBinaries(c.temp)
	return func() { _ = os.RemoveAll(c.temp) }, errors.Join(os.RemoveAll(outputs), os.MkdirAll(outputs, 0o700))
}

// card is a run of make card, with what it has counted.
type card struct {
	began, until time.Time
	took         time.Duration
	commit, temp string
	binaries     *tier.Binaries
	rows         []*row

	mu sync.Mutex
}

// row is a line with what it has counted.
type row struct {
	line

	counts map[string]int
	runs   int
	seed   int   // the seed of the last run
	failed []int // the seeds of the runs that have failed
}

// workers is how many lines run at the same time. Most of them wait for servers and processes.
const workers = 3

// work runs the long lines, and then the other lines in rounds, until the time is over.
func (c *card) work(ctx context.Context) {
	type run struct {
		*row

		seed int
	}
	next := make(chan run)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for r := range next {
				c.one(ctx, r.row, r.seed)
			}
		})
	}
	for seed := 1; ; seed++ {
		for _, r := range c.rows {
			if r.once && seed > 1 {
				continue
			}
			if ctx.Err() != nil || seed > 1 && time.Now().After(c.until) { // the first round is always complete, so that no line is empty
				close(next)
				group.Wait()
				return
			}
			next <- run{r, seed}
		}
	}
}

// one runs a line once.
func (c *card) one(ctx context.Context, r *row, seed int) {
	began := time.Now()
	counts, out, err := c.start(ctx, r.line, seed)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.runs++
	r.seed = seed
	for what, n := range counts {
		r.counts[what] += n
	}
	verdict := "ok  "
	if err != nil {
		verdict = "FAIL"
		r.failed = append(r.failed, seed)
		name := filepath.Join(outputs, fmt.Sprintf("%s-%d.txt", strings.NewReplacer("/", "_", "^", "", "$", "").Replace(r.dir+"-"+r.run), seed))
		_ = os.WriteFile(name, fmt.Appendf(out, "\n%v\n", err), 0o600)
	}
	fmt.Fprintf(os.Stdout, "%s %5.1f s  %s %s seed %d: %s\n", verdict, time.Since(began).Seconds(), r.dir, r.run, seed, told(counts))
}

// start runs the test of a line, and returns its counts.
func (c *card) start(ctx context.Context, l line, seed int) (counts map[string]int, out []byte, err error) {
	binary, err := c.binaries.Build(ctx, l.dir)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.CreateTemp(c.temp, "counts")
	if err != nil {
		return nil, nil, err
	}
	_ = file.Close()
	cmd := exec.CommandContext(ctx, binary, "-test.count=1", "-test.timeout=3h", "-test.run="+l.run)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), testenv.ByHand()...)
	cmd.Env = append(cmd.Env, testenv.CountFile+"="+file.Name(), testenv.UntilVariable+"="+c.until.Format(time.RFC3339))
	if !l.unseeded {
		cmd.Env = append(cmd.Env, "ONCE_TORTURE_SEED="+strconv.Itoa(seed))
	}
	cmd.Env = append(cmd.Env, l.env...)
	cmd.WaitDelay = 10 * time.Second // a server that the test has started may hold its output
	out, err = cmd.CombinedOutput()
	counts, e := read(file.Name())
	if e == nil && err == nil && len(counts) == 0 {
		e = errors.New("it has counted nothing: no such test, or it has skipped itself")
	}
	return counts, out, errors.Join(err, e)
}

// read adds up the numbers that testenv.Count has written to a file.
func read(file string) (map[string]int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for entry := range strings.Lines(string(text)) {
		number, what, _ := strings.Cut(strings.TrimSpace(entry), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no count", file, entry)
		}
		counts[what] += n
	}
	return counts, nil
}
