package replay

import (
	"strconv"
	"testing"

	"github.com/oncelib/once/store"
)

// TestRecentRemembersWhatWasSet and forgets only what has lost its slot to another operation.
func TestRecentRemembersWhatWasSet(t *testing.T) {
	r := NewRecent()
	mark := func(n int) Mark { return r.Mark(store.ID{Scope: "s", Key: strconv.Itoa(n)}) }
	if mark(0).IsSet() {
		t.Error("nothing was set yet")
	}
	const set = 1000
	for n := range set {
		mark(n).Set()
		if !mark(n).IsSet() {
			t.Errorf("%d is not remembered", n)
		}
	}
	kept, wrong := 0, 0
	for n := range set {
		if mark(n).IsSet() {
			kept++
		}
		if mark(set + n).IsSet() {
			wrong++
		}
	}
	if kept < set*9/10 || wrong > 1 { // the slots and hashes are random
		t.Errorf("%d of %d are remembered, and %d that were never set", kept, set, wrong)
	}
}
