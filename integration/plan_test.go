package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/integration/harness"
)

const (
	formEnv  = "ONCE_TORTURE"       // "long": every byte, more keys
	pointEnv = "ONCE_TORTURE_POINT" // run this one point only
	seedEnv  = "ONCE_TORTURE_SEED"  // default 1
)

// plan tells a child what to do and where to die.
type plan struct {
	Store   string
	DSN     string
	Flow    string
	Mode    string // what is counted
	At      int64  // die at this one; 0: count only
	Cold    bool   // count from the first connection on
	Key     string
	Attempt string
	Table   string // the database of a client's intents
	Witness string // file of acknowledgements, or directory of an archive

	Keys, Workers, Process int // of a storm
}

// carryOut has a process carry out the plan, under a tracer if there is one.
func (p plan) carryOut(tb testing.TB, tracer ...string) (out string, killed bool, err error) {
	tb.Helper()
	lines, killed, err := harness.Start(tb, p, tracer...).Ends()
	return strings.Join(lines, "\n"), killed, err
}

// point is one place at which a child is killed.
type point struct {
	store, flow, mode string
	at                int64
}

func (p *point) String() string { return fmt.Sprintf("%s/%s/%s/%d", p.store, p.flow, p.mode, p.at) }

// loop names what p is a point of.
func (p *point) loop() string { return fmt.Sprintf("%s/%s/%s", p.store, p.flow, p.mode) }

// onlyPoint is the one to run again, "" to run all.
func onlyPoint() string { return os.Getenv(pointEnv) }

// again is the command that runs the test at p only.
func (p *point) again(tb testing.TB) string {
	tb.Helper()
	test, _, _ := strings.Cut(tb.Name(), "/")
	return fmt.Sprintf("%s=%d %s='%s' go test -count=1 -run '^%s$' ./integration", seedEnv, seed(), pointEnv, p, test)
}

func long() bool { return os.Getenv(formEnv) == "long" }

// seed of everything random. It is fixed, so that a failure is not a matter of
// luck; other seeds are for those who look for trouble.
func seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64); err == nil {
		return n
	}
	return 1
}

// scale is short in the short form.
func scale(short, full int) int {
	if long() {
		return full
	}
	return short
}

// rerun is what every failure ends with.
func rerun(tb testing.TB) string {
	form := ""
	if long() {
		form = formEnv + "=long "
	}
	return fmt.Sprintf("seed %d. Again: %s%s=%d go test -count=1 -run '^%s$' ./integration", seed(), form, seedEnv, seed(), tb.Name())
}
