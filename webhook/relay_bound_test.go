package webhook

import (
	"testing"
	"time"
)

// TestClaimBeginsAtTheLastBound: a claim begins where the last one has found the first delivery, and before that if something may wait there.
func TestClaimBeginsAtTheLastBound(t *testing.T) {
	t.Parallel()
	b := newBoard(1 << 20)
	b.put(1, 1, 1, &settings{uid: "ep_1", tenant: "t1", concurrency: 4}, &health{})
	b.put(2, 2, 1, &settings{uid: "ep_2", tenant: "t2", concurrency: 1, ordered: true}, &health{})
	first := &bound{due: 7e9, event: 70}
	// claim makes a claim of a target that finds a delivery, or nothing, and returns where it began.
	claim := func(id int64, found *bound, during func()) bound {
		b.mu.Lock()
		a := b.ask(b.targets[id])
		b.mu.Unlock()
		during()
		a.read, a.first = true, found
		b.claimed(a, time.Now())
		return a.from
	}
	nothing := func() {}
	want := func(what string, got, want bound) {
		t.Helper()
		if got != want {
			t.Errorf("%s: it begins at %+v, want %+v", what, got, want)
		}
	}
	for id := range int64(2) {
		want("a new endpoint", claim(id+1, first, nothing), bound{})
	}
	want("after a delivery", claim(1, nil, nothing), *first)
	want("after nothing", claim(1, nil, nothing), *first)
	b.saw(7e9+1e6, 0)
	claim(1, nil, nothing)
	want("an idle endpoint, while others get events", claim(1, nil, nothing), *first)
	b.saw(lateness.Microseconds()+8e9, 0)
	claim(1, nil, nothing)
	late := &bound{due: 5e9, event: 50}
	want("a long time after the last delivery", claim(1, first, func() { b.wake("t1", *late) }), bound{due: 8e9})
	want("a wake during a claim", claim(1, first, nothing), *late)
	b.found(b.targets[1], bound{due: 4e9, event: 99})
	want("what was found before", claim(1, first, nothing), bound{due: 4e9, event: 99})
	b.found(b.targets[1], bound{due: 8e9, event: 1})
	want("what was found after", claim(1, first, nothing), *first)

	want("an ordered endpoint, while an earlier event may commit", claim(2, first, nothing), bound{due: 7e9})
	b.saw(0, 60)
	want("when none below that commits any more", claim(2, nil, nothing), bound{due: 7e9, event: 60})
	want("when nothing waits", claim(2, nil, nothing), bound{event: 60})
	b.wake("t2", bound{due: 1, event: 20})
	want("an event that has committed very late", claim(2, nil, nothing), bound{due: 1, event: 20})
	b.put(2, 2, 2, &settings{uid: "ep_2", tenant: "t2", concurrency: 1}, &health{})
	want("when the order has changed", claim(2, nil, nothing), bound{})
}
