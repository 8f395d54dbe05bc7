package lease_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
)

// What the schedules meet.
const (
	metDeath        = "a process that dies"
	metWakeUp       = "a process that goes on when another one has taken its work over"
	metTakeover     = "a takeover of work whose lease is over"
	metParked       = "a takeover of work that its owner has let go of"
	metRefused      = "a write of an owner that has lost its lease, refused"
	metLostApplied  = "a write whose answer is lost"
	metNotSent      = "a call that was not sent"
	metDeduped      = "a call that the provider has deduped"
	metLateDeduped  = "a late call that the provider has deduped"
	metTombstone    = "a late call that meets a tombstone"
	metDeclined     = "a result: the provider has declined"
	metHappened     = "a check that finds an effect"
	metVoided       = "a check that leaves a tombstone"
	metUnclear      = "a check that tells nothing"
	metUnknown      = "an unknown outcome"
	metUnknownTaken = "an unknown outcome that a Completer takes over"
	metReconciled   = "an unknown outcome in the end, left to a Completer"
	metResolved     = "an unknown outcome that a person ends"
)

// mustMeet is what a run has to meet.
var mustMeet = []string{
	metDeath, metWakeUp, metTakeover, metParked, metRefused, metLostApplied, metNotSent, metDeduped, metLateDeduped, metTombstone, metDeclined,
	metHappened, metVoided, metUnclear, metUnknown, metUnknownTaken, metReconciled, metResolved,
	"told: a result", "told: " + string(once.CodeUnknown) + ", " + once.EffectInDoubt.String(),
	"told: " + string(once.CodeFailed) + ", " + once.EffectInDoubt.String(), "told: " + string(once.CodeInFlight) + ", " + once.EffectNotApplied.String(),
}

// tally counts what the schedules have met.
type tally struct {
	mu  sync.Mutex
	met map[string]int
}

func newTally() *tally { return &tally{met: map[string]int{}} }

func (t *tally) meet(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.met[what]++
}

func (t *tally) String() string {
	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(t.met)) {
		fmt.Fprintf(&s, "\n%8d  %s", t.met[k], k)
	}
	return s.String()
}

// TestPropertiesOfRandomSchedules: whatever happens to callers, processes, messages to the database and calls of other services, each phase
// takes effect once and in its order, a call has one effect or its outcome is unknown, what a caller was told stays true, and the
// operation comes to its end.
//
// ONCE_TORTURE_SEED=7 runs the schedule of that seed alone, and tells its story. A few seeds have more than one, because the short
// pauses of the production code are random: -count=20 meets them. ONCE_TORTURE=long runs 100,000.
func TestPropertiesOfRandomSchedules(t *testing.T) {
	testenv.Prove(t)
	if seed, err := strconv.ParseUint(os.Getenv("ONCE_TORTURE_SEED"), 10, 64); err == nil {
		synctest.Test(t, func(t *testing.T) { schedule(t, seed, encrypter(t), newTally(), true) })
		return
	}
	n := uint64(3000)
	if os.Getenv("ONCE_TORTURE") == "long" {
		n = 100_000
	}
	met := schedules(t, 1, n)
	for _, what := range mustMeet {
		if met.met[what] == 0 && !t.Failed() {
			t.Errorf("vacuous: never met %q", what)
		}
	}
}

// TestFewRandomSchedules is a little of TestPropertiesOfRandomSchedules, for make test.
func TestFewRandomSchedules(t *testing.T) { schedules(t, 1, 200) }

// schedules runs those of the seeds from first on, some at the same time.
func schedules(t *testing.T, first, n uint64) *tally {
	t.Helper()
	box, met := encrypter(t), newTally()
	var begun atomic.Uint64
	t.Run("at the same time", func(t *testing.T) {
		for worker := range 4 {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for i := begun.Add(1); i <= n && !t.Failed(); i = begun.Add(1) {
					synctest.Test(t, func(t *testing.T) { schedule(t, first+i-1, box, met, false) })
				}
			})
		}
	})
	testenv.Count("schedules", int(n))
	testenv.Reportf(t, "%d schedules:%v", n, met)
	return met
}
