package inbox

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/message"
)

// TestRoundTrips: with pgx, a message costs one round trip beside BEGIN, the handler's statement and COMMIT, and so does a batch.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	var wire faultnet.Wire
	g := newPgx(t, func(c *pgxpool.Config) {
		c.MaxConns, c.ConnConfig.DialFunc = 1, wire.DialContext
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a connection that was idle for a second would be pinged: one more round trip
	})
	seq := int64(0)
	next := func(key string) message.Message { seq++; return ordered(key, seq) }
	for _, c := range []struct {
		order inbox.Order
		keyed bool
		batch int
		most  int64
	}{{inbox.AnyOrder, false, 1, 4}, {inbox.InOrder, true, 1, 4}, {inbox.LatestVersion, true, 1, 4}, {inbox.AnyOrder, false, 10, 13}, {inbox.InOrder, true, 10, 13}} {
		in, _ := g.inbox(t, inbox.Config{Consumer: fmt.Sprint(c), Order: c.order})
		var trips int64
		seq = 0
		for range 3 { // the first times prepare
			var batch []message.Message
			for range c.batch {
				if m := next("k"); c.keyed {
					batch = append(batch, m)
				} else {
					batch = append(batch, event(m.ID))
				}
			}
			before := wire.Counts().RoundTrips
			must(t, errorsOf(in.HandleBatch(t.Context(), batch, g.book)))
			_ = g.count(t, "select 1") // waits until the connection is free again
			trips = wire.Counts().RoundTrips - before - 1
		}
		if trips > c.most {
			t.Errorf("order %d, batch of %d: %d round trips, at most %d are expected", c.order, c.batch, trips, c.most)
		}
	}
}
