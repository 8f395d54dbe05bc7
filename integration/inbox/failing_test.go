package inbox

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestFailingIsNotMissing: a message that has come and fails is told as failing, with its attempts and its error. It raises no alarm of a missing
// message while it is tried, and it cannot be skipped, because it would be lost.
func TestFailingIsNotMissing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testFailingIsNotMissing[pgx.Tx], testFailingIsNotMissing[*sql.Tx])
}

func testFailingIsNotMissing[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(9), GapAlarm: time.Millisecond})
	fn := g.failing(named("k-1"))
	for _, m := range []message.Message{ordered("k", 2), ordered("m", 2)} { // m-1 never comes
		o, err := in.Handle(t.Context(), m, fn)
		want(t, o, err, inbox.Parked)
	}
	for range 2 {
		if _, err := in.Handle(t.Context(), ordered("k", 1), fn); !errors.Is(err, errRefused) {
			t.Fatal(err)
		}
	}
	fails := func(what string, f inbox.Failing) {
		t.Helper()
		if f.Attempts != 2 || f.EventID != "k-1" || !strings.Contains(f.Error, errRefused.Error()) || f.LastAt.IsZero() {
			t.Errorf("%s: %+v", what, f)
		}
	}
	listed := func(what string, list []inbox.Gap, err error) {
		t.Helper()
		if err != nil || len(list) != 2 {
			t.Fatalf("%s: %+v, %v", what, list, err)
		}
		for _, gap := range list {
			if gap.Key == "k" {
				fails(what, gap.Failing)
			} else if gap.Failing != (inbox.Failing{}) {
				t.Errorf("%s: a message that has not come: %+v", what, gap)
			}
		}
	}
	list, err := in.Gaps(t.Context())
	listed("Gaps", list, err)
	list, _, err = inbox.GapsUpTo(t.Context(), g.store, "billing", 9)
	listed("GapsUpTo", list, err)
	p, err := in.Place(t.Context(), "s", "refunds", "k", 1)
	must(t, err)
	fails("Place", p.Failing)
	seen, err := inbox.Find(t.Context(), g.store, message.Message{ID: "k-1"})
	if err != nil || len(seen) != 1 || seen[0].State != inbox.StateFailing {
		t.Fatalf("%+v, %v", seen, err)
	}
	fails("Find", seen[0].Failing)

	if err := in.Skip(t.Context(), "s", "refunds", "k", 1, "ada", "it blocks"); !errors.Is(err, inbox.ErrNotNext) || !strings.Contains(err.Error(), "failed 2 times") {
		t.Errorf("Skip: %v", err)
	}
	run(t, in, fn, func() bool { return len(told.of(inbox.EventGap)) > 0 })
	if e := told.of(inbox.EventGap); len(e) != 1 || e[0].Gap.Key != "m" || e[0].Err != nil {
		t.Errorf("%+v", e)
	}

	// A broker that delivers it no more has lost it: then there is an alarm, which says so.
	g.exec(t, "update once_deadletter_attempt set at = AGO(?)", (2 * time.Hour).Microseconds())
	alarmed := func(e inbox.Event) bool { return e.Gap.Key == "k" && e.Attempt == 2 && e.Err != nil }
	run(t, in, fn, func() bool { return slices.ContainsFunc(told.of(inbox.EventGap), alarmed) })

	o, err := in.Handle(t.Context(), ordered("k", 1), g.book)
	want(t, o, err, inbox.Applied)
	g.wantBooked(t, "k-1", "k-2")
	if seen, err = inbox.Find(t.Context(), g.store, message.Message{ID: "k-1"}); err != nil || len(seen) != 1 || seen[0].State != inbox.StateApplied || !seen[0].ByNumber {
		t.Errorf("%+v, %v", seen, err)
	}
	if list, err = in.Gaps(t.Context()); err != nil || len(list) != 1 || list[0].Key != "m" {
		t.Errorf("%+v, %v", list, err)
	}
}
