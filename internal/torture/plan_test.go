package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

const (
	planEnv  = "ONCE_TORTURE_CHILD" // the plan of a child process
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

// environ is the environment of a child.
func (p plan) environ() []string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	// The race detector's second of waiting at the exit is for reports of its own.
	race := strings.TrimSpace(os.Getenv("GORACE") + " atexit_sleep_ms=0")
	return append(os.Environ(), planEnv+"="+string(text), "GORACE="+race)
}

func parsePlan(text string) (p plan, err error) {
	err = json.Unmarshal([]byte(text), &p)
	return p, err
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

// again is the command that runs test at p only.
func (p *point) again(test string) string {
	return fmt.Sprintf("%s=%d %s='%s' go test -count=1 -run '^%s$' ./internal/torture", seedEnv, seed(), pointEnv, p, test)
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
	return fmt.Sprintf("seed %d. Again: %s%s=%d go test -count=1 -run '^%s$' ./internal/torture", seed(), form, seedEnv, seed(), tb.Name())
}
