package property

import (
	"cmp"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestHistoriesOfTheEngine: whatever happens to callers, nodes, connections and the store's
// clock, an operation takes effect once, what was said stays true, and nothing hangs.
func TestHistoriesOfTheEngine(t *testing.T) {
	testenv.Prove(t)
	if seed := flag.Lookup("rapid.seed").Value; seed.String() == "0" && os.Getenv("ONCE_TORTURE") != "long" {
		// A change is judged by the same histories as the last one. The long form, and
		// -rapid.seed, choose others.
		if err := seed.Set(cmp.Or(os.Getenv("ONCE_TORTURE_SEED"), "1")); err != nil {
			t.Fatal(err)
		}
	}
	met := tally{}
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			history(rt, met)
		})
	})
	testenv.Reportf(t, "%v", met)
	if missing := met.missing(); len(missing) > 0 && !t.Failed() {
		t.Errorf("vacuous: never met %q", missing)
	}
}

// history is one of them. It returns its story.
func history(t *rapid.T, met tally) []string {
	testenv.Count("schedules", 1)
	w := newWorld(t, met)
	defer w.abandon()
	all := w.actions()
	t.Repeat(map[string]func(*rapid.T){
		"":     func(*rapid.T) { w.check() },
		"next": func(t *rapid.T) { w.next(t, all) },
	})
	w.drain(oneIn(t, 2, "late"))
	w.askAll()
	return w.story
}

// enough is more ticks and orders than any call needs that nothing fails any more.
const enough = 300

// drain lets everything come to its end without any more faults. What is still on its
// way arrives at once, or when no caller waits for it any more.
func (w *world) drain(late bool) {
	for range enough {
		for len(w.ghosts) > 0 && !late {
			w.noticed(0, w.ghosts[0].change != nil)
			w.check()
		}
		waiting := w.waiting()
		for _, g := range waiting {
			w.order(g, order{ending: succeeding, commit: true})
			w.check()
		}
		switch alone := len(w.inside()) == 0; {
		case alone && len(w.ghosts) == 0:
			return
		case alone:
			late = false
		case len(waiting) == 0:
			w.ticks(nil)
			w.check()
		}
	}
	for _, g := range w.groups {
		w.t.Errorf("group %d hangs: %+v", g.seq, g.ops)
	}
	w.t.FailNow()
}

// inside returns who has not been answered.
func (w *world) inside() (all []*call) {
	defer w.lock()()
	return slices.Clone(w.calls)
}

// askAll asks every node for every operation in the end: the answer is the one that
// was given, and what was never done can be done now.
func (w *world) askAll() {
	<-time.After(cacheFor) // what is in a cache and has expired is not said any more
	w.db.Advance(-cacheFor)
	for _, o := range w.ops {
		for _, n := range w.nodes {
			before := o.rec
			g := &group{node: n, ops: []once.Operation{{Scope: o.id.Scope, Key: o.id.Key}}}
			c := w.start(g, 1, 0)[0]
			w.drain(false)
			a := c.answers[0]
			code := once.CodeOf(a.err)
			ok := false
			switch before.State {
			case store.StateAbsent:
				ok = a.err == nil && !a.replayed
			case store.StateDone:
				ok = a.err == nil && a.replayed && a.name == nameIn(before.Result)
			case store.StateUnknown:
				ok = code == once.CodeUnknown
			case store.StateRunning:
				ok = code == once.CodeInFlight || code == once.CodeUnknown && before.CallStarted
			}
			if !ok {
				w.t.Fatalf("%s was %+v; asked in the end: %+v", o.id.Key, before, a)
			}
		}
	}
}

// abandon lets everybody go home after a failure, those who sleep as well: time ends with
// the test.
func (w *world) abandon() {
	unlock := w.lock()
	for _, n := range w.nodes {
		n.dead = true
	}
	unlock()
	for _, g := range w.groups {
		g.cancel()
	}
	for _, g := range w.waiting() {
		g.open <- order{ending: failing}
	}
	<-time.After(time.Minute)
}
