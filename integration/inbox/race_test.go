package inbox

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestSameMessageAtOnce: two nodes handle the same message at the same time. The second one waits for the end of the first one's
// transaction, and finds that the message was applied.
func TestSameMessageAtOnce(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testSameMessageAtOnce[pgx.Tx], testSameMessageAtOnce[*sql.Tx])
}

func testSameMessageAtOnce[TX any](t *testing.T, g *fixture[TX]) {
	for _, order := range []inbox.Order{inbox.AnyOrder, inbox.InOrder, inbox.LatestVersion} {
		in, _ := g.inbox(t, inbox.Config{Order: order})
		key := string(rune('a' + order))
		o, err := in.Handle(t.Context(), ordered(key, 1), g.book) // so that the position exists
		want(t, o, err, inbox.Applied)
		m := ordered(key, 2)
		entered := make(chan struct{}, 2)
		var wg sync.WaitGroup
		var outcomes [2]inbox.Outcome
		for node := range outcomes {
			wg.Go(func() {
				o, err := in.Handle(t.Context(), m, func(ctx context.Context, tx TX, m message.Message) error {
					err := g.book(ctx, tx, m)
					entered <- struct{}{}
					return err
				})
				if outcomes[node] = o; err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(entered); n != 1 {
			t.Errorf("order %d: %d handlers have run", order, n)
		}
		if outcomes != [2]inbox.Outcome{inbox.Applied, inbox.Duplicate} && outcomes != [2]inbox.Outcome{inbox.Duplicate, inbox.Applied} {
			t.Errorf("order %d: %q", order, outcomes)
		}
	}
	g.wantBooked(t, "a-1", "a-2", "b-1", "b-2", "c-1", "c-2")
}

// TestRedriveFails: a letter whose redrive fails waits again, and another redrive may succeed.
func TestRedriveFails(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRedriveFails[pgx.Tx], testRedriveFails[*sql.Tx])
}

func testRedriveFails[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{Policy: soon(1)})
	fn := g.failing(named("a"))
	o, err := in.Handle(t.Context(), event("a"), fn)
	want(t, o, err, inbox.DeadLettered)
	liar := event("b")
	liar.Payload = []byte("another body")
	for _, c := range []struct {
		m message.Message
		o inbox.Outcome
	}{{event("b"), inbox.Applied}, {liar, inbox.DeadLettered}} {
		o, err := in.Handle(t.Context(), c.m, fn)
		want(t, o, err, c.o)
	}
	g.exec(t, "update once_deadletter set redrive_at = NOW")
	run(t, in, fn, func() bool { return len(told.of(inbox.EventDeadLettered)) == 4 || g.letters(t) < 2 })
	if n := g.letters(t); n != 2 {
		t.Errorf("%d letters", n)
	}
	g.wantBooked(t, "b")
	o, err = in.Handle(t.Context(), event("a"), g.book) // a late delivery of what is dead does nothing
	want(t, o, err, inbox.DeadLettered)
	g.exec(t, "update once_deadletter set redrive_at = NOW where event_id = 'a'")
	run(t, in, g.book, func() bool { return g.letters(t) == 1 })
	g.wantBooked(t, "a", "b")
	o, err = in.Handle(t.Context(), event("a"), g.book)
	want(t, o, err, inbox.Duplicate)
}

// TestDatabaseFaultsAreNoAttempts: a message does not become a dead letter because the database is down.
func TestDatabaseFaultsAreNoAttempts(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testDatabaseFaultsAreNoAttempts[pgx.Tx], testDatabaseFaultsAreNoAttempts[*sql.Tx])
}

func testDatabaseFaultsAreNoAttempts[TX any](t *testing.T, g *fixture[TX]) {
	down := true
	s := &pointStore[TX]{Store: g.store, at: func(name string) error {
		if down && name == "commit" {
			return errInjected
		}
		return nil
	}}
	in, told := g.inboxOn(once.New(s, once.Config{Observer: once.Discard}), inbox.Config{Policy: soon(1)})
	for range 3 {
		if o, err := in.Handle(t.Context(), event("a"), g.book); !errors.Is(err, errInjected) {
			t.Errorf("%q, %v", o, err)
		}
	}
	if n := g.count(t, "select count(*) from once_deadletter_attempt"); n != 0 || g.letters(t) != 0 || len(told.of(inbox.EventFailed)) != 0 {
		t.Errorf("%d attempts", n)
	}
	down = false
	o, err := in.Handle(t.Context(), event("a"), g.book)
	want(t, o, err, inbox.Applied)
	g.wantBooked(t, "a")
}
