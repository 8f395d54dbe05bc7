package outbox

import (
	"context"
	"fmt"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlplane"
)

// TestRelayLockedRows: a transaction that stays open has touched rows of two topics, both of which are delivered. Neither can be written down, and
// all others are. Nothing is delivered again when the transaction ends.
func TestRelayLockedRows(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayLockedRows, testRelayLockedRows)
}

func testRelayLockedRows[TX any](t *testing.T, g *fixture[TX]) {
	if !g.isServer() {
		t.Skip("SQLite lets one transaction write at a time, so the case cannot exist")
	}
	const locked, healthy = 4, 20
	for i := range locked {
		g.mustAdd(t, event("locked1", fmt.Sprint("k", i), "t1"), event("locked2", fmt.Sprint("k", i), "t1"))
	}
	must(t, g.box.Pause(t.Context(), "locked2", "", "later"))
	tx, end := g.begin(t)
	table := "once_outbox"
	if g.store.Dialect() == sqlplane.MySQL { // another index would lock gaps as well, into which messages are added
		table += " force index (primary)"
	}
	for _, at := range g.places(t) {
		_, err := g.store.On(tx).Exec(t.Context(), g.text("update "+table+" set trace = 'x' where part = ? and id = ?", at[0], at[1]))
		must(t, err)
	}
	b, e := newInbox(), newEvents()
	start(t, g.relay(b, outbox.RelayConfig{Observer: e}))
	b.waitFor(t, locked)
	_, err := g.box.Resume(t.Context(), "locked2", "") // its rows come to another statement
	must(t, err)
	b.waitFor(t, 2*locked)
	for i := range healthy {
		must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
			return g.box.Add(ctx, tx, event("healthy", "k", fmt.Sprint("t", i+1)))
		}))
	}
	e.wait(t, "the last healthy message to be written down", func(e outbox.Event) bool {
		return e.Type == outbox.EventDelivered && e.Message.Type == fmt.Sprint("t", healthy)
	})
	if n := e.count(func(e outbox.Event) bool { return e.Type == outbox.EventDelivered && e.Message.Topic != "healthy" }); n > 0 {
		t.Errorf("%d messages whose rows are locked are written down", n)
	}
	must(t, end(true))
	g.waitEmpty(t)
	b.check(t, 2*locked+healthy)
}

// places are the parts and ids of all messages.
func (g *fixture[TX]) places(t *testing.T) (list [][2]int64) {
	t.Helper()
	must(t, g.store.Pool().Query(t.Context(), g.text("select part, id from once_outbox"), func(row sqlplane.Row) error {
		var at [2]int64
		err := row.Scan(&at[0], &at[1])
		list = append(list, at)
		return err
	}))
	return list
}
