package property

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/storetest"
)

// tally counts what the histories have met.
type tally map[string]int

const (
	metExecuted         = "executed"
	metReplayed         = "replayed"
	metCoalesced        = "a follower that never asked the store"
	metCached           = "a replay from the cache"
	metCachedMismatch   = "a mismatch from the cache"
	metCachedStale      = "from the cache, what has expired by a clock that jumps"
	metBeaten           = "a handler that ran, and then a replay"
	metUnwound          = "a handler that never returned"
	metCancelledApplied = "a caller who cancelled, and was told that it was applied"
	metDoubtApplied     = "in doubt, and applied, then or later"
	metDoubtUndone      = "in doubt, and not applied"
	metSettledApplied   = "a lost commit that was settled as applied"
	metStale            = "a look-up older than its claim, or none"
	metRival            = "a rival"
	metExpired          = "an operation that has expired"
	metKeptAnew         = "an operation that has expired while its commit was in doubt"
	metCrash            = "a node that has died with callers inside"
	metJoinCommitted    = "a caller's transaction that has committed"
	metJoinUndone       = "a caller's transaction that has not"
	metTakeover         = "a takeover"
	metStaleHolder      = "a write of a holder whose operation was taken over, refused"
	metMarkedUnknown    = "marked unknown"
	metResolved         = "resolved"
	metReleased         = "released"
	metBackwards        = "the store's clock goes back"
)

// must are what a run has to meet.
func must() []string {
	all := []string{
		metExecuted, metReplayed, metCoalesced, metCached, metCachedMismatch, metCachedStale, metBeaten, metUnwound, metCancelledApplied, metDoubtApplied, metDoubtUndone,
		metSettledApplied, metStale, metRival, metExpired, metCrash, metJoinCommitted, metJoinUndone,
		metTakeover, metStaleHolder, metMarkedUnknown, metResolved, metReleased, metBackwards,
	}
	for _, e := range []once.EventType{once.EventClaimed, once.EventWaiting, once.EventRerun, once.EventInDoubt, once.EventSettled} {
		all = append(all, string(e))
	}
	for _, c := range []once.Code{
		once.CodeInFlight, once.CodeMismatch, once.CodeUnknown, once.CodeFailed, once.CodeAborted, once.CodeConflict, once.CodeUnavailable, once.CodeMisuse,
	} {
		all = append(all, string(c))
	}
	for _, at := range faults {
		for _, f := range at {
			all = append(all, string(f))
		}
	}
	return append(all, string(storetest.JoinDown))
}

// missing returns what was not met.
func (t tally) missing() (m []string) {
	for _, what := range must() {
		if t[what] == 0 {
			m = append(m, what)
		}
	}
	slices.Sort(m)
	return slices.Compact(m)
}

func (t tally) String() string {
	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&s, "\n%7d  %s", t[k], k)
	}
	return s.String()
}
