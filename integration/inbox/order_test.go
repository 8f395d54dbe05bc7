package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestInOrder: messages of a key are applied in their order, whatever the order of deliveries is.
func TestInOrder(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testInOrder[pgx.Tx], testInOrder[*sql.Tx])
}

func testInOrder[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder})
	give := func(seq int64, w inbox.Outcome) {
		t.Helper()
		o, err := in.Handle(t.Context(), ordered("k", seq), g.book)
		want(t, o, err, w)
	}
	give(2, inbox.Parked)
	give(2, inbox.Parked)
	give(3, inbox.Parked)
	if n := g.parked(t); n != 2 {
		t.Errorf("%d parked", n)
	}
	impostor := ordered("k", 3)
	impostor.ID = "impostor"
	o, err := in.Handle(t.Context(), impostor, g.book)
	want(t, o, err, inbox.DeadLettered)
	give(1, inbox.Applied) // and the parked ones follow
	g.wantOnce(t, []string{"k"}, 3)
	give(3, inbox.Duplicate)
	give(1, inbox.Duplicate)
	give(4, inbox.Applied)
	give(6, inbox.Parked)
	marker := ordered("k", 5)
	marker.Type, marker.Payload = message.TypeSkipped, nil
	o, err = in.Handle(t.Context(), marker, g.book)
	want(t, o, err, inbox.Skipped)
	give(7, inbox.Applied)
	if n := g.parked(t); n != 0 {
		t.Errorf("%d parked", n)
	}
	if n := g.count(t, "select count(*) from once_inbox"); n != 0 {
		t.Errorf("%d IDs are kept: the position is enough", n)
	}
	g.wantBooked(t, "k-1", "k-2", "k-3", "k-4", "k-6", "k-7")

	// Messages without a place are applied once.
	for _, w := range []inbox.Outcome{inbox.Applied, inbox.Duplicate} {
		m := event("free")
		m.Seq = 9
		o, err := in.Handle(t.Context(), m, g.book)
		want(t, o, err, w)
	}
}

// TestFailingHead: a message that fails is not overtaken, and no other key waits for it.
func TestFailingHead(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testFailingHead[pgx.Tx], testFailingHead[*sql.Tx])
}

func testFailingHead[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(2)})
	broken := true
	fn := g.failing(func(m message.Message) bool { return broken && (m.ID == "k-1" || m.ID == "l-2") })
	if o, err := in.Handle(t.Context(), ordered("k", 1), fn); !errors.Is(err, errRefused) {
		t.Errorf("%q, %v", o, err)
	}
	o, err := in.Handle(t.Context(), ordered("k", 2), fn)
	want(t, o, err, inbox.Parked)
	o, err = in.Handle(t.Context(), ordered("l", 2), fn)
	want(t, o, err, inbox.Parked)
	o, err = in.Handle(t.Context(), ordered("l", 1), fn)
	want(t, o, err, inbox.Applied)
	g.wantBooked(t, "l-1") // and l-2, which was parked, has failed
	o, err = in.Handle(t.Context(), ordered("k", 1), fn)
	want(t, o, err, inbox.DeadLettered)
	if list, err := in.Gaps(t.Context()); err != nil || len(list) != 2 || list[0].Key == list[1].Key {
		t.Errorf("%+v, %v", list, err)
	} else {
		for _, g := range list {
			if isDead := g.Key == "k" && g.Seq == 1 && g.Dead && g.Failing == (inbox.Failing{}); g.Parked != 1 || !isDead && (g.Key != "l" || g.Seq != 2 || g.Dead || g.Failing.Attempts != 1) {
				t.Errorf("%+v", g)
			}
		}
	}
	o, err = in.Handle(t.Context(), ordered("l", 2), fn) // delivered again, it is tried
	want(t, o, err, inbox.DeadLettered)
	o, err = in.Handle(t.Context(), ordered("l", 3), fn)
	want(t, o, err, inbox.Parked)
	if n := g.parked(t); n != 2 {
		t.Errorf("%d parked", n)
	}
	g.wantBooked(t, "l-1")

	if t.Failed() {
		return // nothing would follow
	}
	// A redrive applies the head, and what has waited follows. A person may give it up as well.
	broken = false
	g.exec(t, "update once_deadletter set redrive_at = NOW where event_id = 'k-1'")
	run(t, in, fn, func() bool { return len(g.booked(t)) == 3 })
	must(t, in.Skip(t.Context(), "s", "refunds", "l", 2, "ada", "it is not needed"))
	must(t, in.Skip(t.Context(), "s", "refunds", "l", 2, "ada", "again"))
	run(t, in, fn, func() bool { return len(g.booked(t)) == 4 })
	g.wantBooked(t, "k-1", "k-2", "l-1", "l-3")
	g.exec(t, "update once_deadletter set redrive_at = NOW where event_id = 'l-2'")
	run(t, in, fn, func() bool { return g.letters(t) == 0 })
	if n := g.count(t, "select count(*) from once_deadletter where state = 'stale'"); n != 1 {
		t.Errorf("%d letters are stale", n)
	}
	g.wantBooked(t, "k-1", "k-2", "l-1", "l-3")
	if err := in.Skip(t.Context(), "s", "refunds", "l", 9, "ada", "x"); !errors.Is(err, inbox.ErrNotNext) {
		t.Errorf("%v", err)
	}
	if n := len(told.of(inbox.EventDeadLettered)); n != 2 {
		t.Errorf("%d told", n)
	}
	g.wantAudited(t, "inbox skip", "it is not needed", "seq 2")
}

// wantAudited checks that an operator's change is in the audit, once.
func (g *fixture[TX]) wantAudited(t *testing.T, action, reason, detail string) {
	t.Helper()
	if n := g.count(t, "select count(*) from once_audit where who = 'ada' and action = '"+action+"'"); n != 1 {
		t.Errorf("%d entries of %s in the audit", n, action)
	}
	if n := g.count(t, "select count(*) from once_audit where reason = '"+reason+"' and detail = '"+detail+"'"); n != 1 {
		t.Errorf("%d entries of %s with the reason %q and %q", n, action, reason, detail)
	}
}

// run runs in until done.
func run[TX any](t *testing.T, in *inbox.Inbox[TX], fn inbox.Handler[TX], done func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := in.Run(ctx, fn); err != nil {
			t.Error(err)
		}
	})
	until(t, done)
	cancel()
	wg.Wait()
}

// until waits for done.
func until(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// TestLatestVersion: an older version than the applied one is ignored.
func TestLatestVersion(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testLatestVersion[pgx.Tx], testLatestVersion[*sql.Tx])
}

func testLatestVersion[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{Order: inbox.LatestVersion, Policy: soon(1)})
	fn := g.failing(named("k-6", "k-9"))
	for _, c := range []struct {
		seq int64
		o   inbox.Outcome
	}{{5, inbox.Applied}, {3, inbox.Stale}, {5, inbox.Duplicate}, {6, inbox.DeadLettered}, {7, inbox.Applied}, {9, inbox.DeadLettered}} {
		o, err := in.Handle(t.Context(), ordered("k", c.seq), fn)
		want(t, o, err, c.o)
	}
	if n := len(told.of(inbox.EventStale)); n != 1 {
		t.Errorf("%d stale ones told", n)
	}
	g.wantBooked(t, "k-5", "k-7")
	g.exec(t, "update once_deadletter set redrive_at = NOW")
	run(t, in, g.book, func() bool { return g.letters(t) == 0 })
	g.wantBooked(t, "k-5", "k-7", "k-9")
}

// TestStartInTheMiddle: a consumer begins where it is told to.
func TestStartInTheMiddle(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testStartInTheMiddle[pgx.Tx], testStartInTheMiddle[*sql.Tx])
}

func testStartInTheMiddle[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{Order: inbox.InOrder, GapAlarm: time.Millisecond})
	for _, seq := range []int64{4, 6, 7} { // what came before was deleted by the outbox
		o, err := in.Handle(t.Context(), ordered("k", seq), g.book)
		want(t, o, err, inbox.Parked)
	}
	run(t, in, g.book, func() bool { return len(told.of(inbox.EventGap)) > 0 })
	if e := told.of(inbox.EventGap); len(e) != 1 || e[0].Gap.Seq != 1 || e[0].Gap.Parked != 3 || e[0].Gap.Dead {
		t.Errorf("%+v", e)
	}
	// A key waits since the first message was parked, whatever is parked later.
	g.exec(t, "update once_inbox_position set moved_at = AGO(?)", time.Hour.Microseconds())
	o, err := in.Handle(t.Context(), ordered("k", 9), g.book)
	want(t, o, err, inbox.Parked)
	if list, err := in.Gaps(t.Context()); err != nil || len(list) != 1 || time.Since(list[0].Since) < time.Minute {
		t.Errorf("%+v, %v", list, err)
	}
	must(t, in.StartAt(t.Context(), "s", "refunds", "k", 6, "ada", "the first ones are deleted"))
	must(t, in.StartAt(t.Context(), "s", "refunds", "k", 6, "ada", "again"))
	run(t, in, g.book, func() bool { return len(g.booked(t)) == 2 })
	g.wantBooked(t, "k-6", "k-7")
	if err := in.StartAt(t.Context(), "s", "refunds", "k", 7, "ada", "x"); err == nil {
		t.Error("it was set back")
	}
	o, err = in.Handle(t.Context(), ordered("k", 4), g.book)
	want(t, o, err, inbox.Duplicate)
	if n := g.parked(t); n != 1 {
		t.Errorf("%d parked", n)
	}
	g.wantAudited(t, "inbox start-at", "the first ones are deleted", "seq 6, after 0; parked messages dropped: 1")

	anywhere, _ := g.inbox(t, inbox.Config{Consumer: "any", Order: inbox.InOrder, FromAny: true})
	for _, c := range []struct {
		seq int64
		o   inbox.Outcome
	}{{41, inbox.Applied}, {40, inbox.Duplicate}, {43, inbox.Parked}, {42, inbox.Applied}} {
		o, err := anywhere.Handle(t.Context(), ordered("x", c.seq), g.book)
		want(t, o, err, c.o)
	}
	g.wantBooked(t, "k-6", "k-7", "x-41", "x-42", "x-43")
}

// TestTwoNodes: several processes get the same messages at the same time, in batches and in disorder.
func TestTwoNodes(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testTwoNodes[pgx.Tx], testTwoNodes[*sql.Tx])
}

func testTwoNodes[TX any](t *testing.T, g *fixture[TX]) {
	const n = 12
	keys := []string{"a", "b", "c"}
	all := mixed(keys, n)
	g.onNodes(t, all, 3, 20)
	g.wantMixed(t, all, keys, n)
}

// mixed are messages 1 to n of each key, and as many without an order.
func mixed(keys []string, n int64) (all []message.Message) {
	for _, k := range keys {
		for seq := range n {
			all = append(all, ordered(k, seq+1), event(fmt.Sprintf("free-%s-%d", k, seq)))
		}
	}
	return all
}

// onNodes delivers all messages to each of several nodes, in disorder and in batches of up to most, until they are acknowledged.
func (g *fixture[TX]) onNodes(t *testing.T, all []message.Message, nodes, most int) {
	t.Helper()
	var wg sync.WaitGroup
	for node := range nodes {
		random := rand.New(rand.NewPCG(uint64(node), 1))
		in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder})
		wg.Go(func() {
			left := append([]message.Message{}, all...)
			for end := time.Now().Add(patience); len(left) > 0; {
				if time.Now().After(end) {
					t.Errorf("%d messages are left, and none is acknowledged any more", len(left))
					return
				}
				random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
				size := min(1+random.IntN(most), len(left))
				var again []message.Message
				for i, r := range in.HandleBatch(t.Context(), left[:size], g.book) {
					if r.Err != nil {
						again = append(again, left[i])
					}
				}
				if len(again) < size {
					end = time.Now().Add(patience)
				}
				left = append(left[size:len(left):len(left)], again...)
			}
		})
	}
	wg.Wait()
}

// wantMixed expects messages of mixed to be applied, each once, those of a key in order, and nothing to be left.
func (g *fixture[TX]) wantMixed(t *testing.T, all []message.Message, keys []string, n int) {
	t.Helper()
	if t.Failed() {
		return
	}
	if list := g.booked(t); len(list) != len(all) {
		t.Errorf("%d effects of %d messages", len(list), len(all))
	}
	g.exec(t, "delete from effect where k = ''")
	g.wantOnce(t, keys, n)
	if n := g.parked(t); n != 0 {
		t.Errorf("%d are parked", n)
	}
	if n := g.letters(t); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
