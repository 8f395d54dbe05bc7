package inbox

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
)

// How many keys are in trouble: more than a look of Run finds, and leaves out.
const manyParked, manyLetters = 210, 130

// sickKeys returns message seq of n keys.
func sickKeys(n int, seq int64) (list []message.Message) {
	for n := range n {
		list = append(list, ordered(fmt.Sprintf("a sick %d", n), seq))
	}
	return list
}

// handled expects one outcome for all messages.
func handled(t *testing.T, results []inbox.Result, outcome inbox.Outcome) {
	t.Helper()
	for _, r := range results {
		want(t, r.Outcome, r.Err, outcome)
	}
}

// TestParkedBehindMany: a parked message is applied although those of many keys before its own are due and cannot be read.
func TestParkedBehindMany(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testParkedBehindMany[pgx.Tx], testParkedBehindMany[*sql.Tx])
}

func testParkedBehindMany[TX any](t *testing.T, g *fixture[TX]) {
	encrypter, err := once.NewEncrypter(bytes.Repeat([]byte{1}, 32))
	must(t, err)
	knows, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Encrypter: encrypter})
	blind, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder})
	handled(t, knows.HandleBatch(t.Context(), sickKeys(manyParked, 2), g.book), inbox.Parked)
	handled(t, blind.HandleBatch(t.Context(), sickKeys(manyParked, 1), g.book), inbox.Applied)
	g.park(t, blind, "refunds", "healthy")
	run(t, blind, g.book, func() bool { return g.count(t, "select count(*) from effect where event = 'healthy-2'") == 1 })
	if n := g.parked(t); n != manyParked {
		t.Errorf("%d messages are parked, want %d", n, manyParked)
	}
	run(t, knows, g.book, func() bool { return len(g.booked(t)) == 2*manyParked+2 })
}

// TestRedriveBehindMany: a redriven letter is applied although those of many keys before it are due and cannot be applied.
func TestRedriveBehindMany(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRedriveBehindMany[pgx.Tx], testRedriveBehindMany[*sql.Tx])
}

func testRedriveBehindMany[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.LatestVersion, Policy: soon(1)})
	broken := g.failing(func(message.Message) bool { return true })
	handled(t, in.HandleBatch(t.Context(), append(sickKeys(manyLetters, 1), ordered("healthy", 1)), broken), inbox.DeadLettered)
	g.exec(t, "update once_deadletter set redrive_at = AGO(?)", time.Hour.Microseconds())
	g.exec(t, "update once_deadletter set redrive_at = NOW where event_id = 'healthy-1'")
	away := func(ctx context.Context, tx TX, m message.Message) error {
		if m.Key != "healthy" {
			return &store.Error{Kind: store.KindUnavailable, Err: errRefused}
		}
		return g.book(ctx, tx, m)
	}
	run(t, in, away, func() bool { return len(g.booked(t)) == 1 })
	if n := g.letters(t); n != manyLetters {
		t.Errorf("%d letters wait, want %d", n, manyLetters)
	}
	run(t, in, g.book, func() bool { return g.letters(t) == 0 })
}
