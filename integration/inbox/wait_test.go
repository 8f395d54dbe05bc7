package inbox

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
)

// TestResultTellsTheWait: the result of a message says how long its transaction has waited for a connection.
func TestResultTellsTheWait(t *testing.T) {
	t.Parallel()
	const slow = 20 * time.Millisecond
	g := newPgx(t, func(c *pgxpool.Config) {
		c.BeforeAcquire = func(context.Context, *pgx.Conn) bool { <-time.After(slow); return true } //nolint:staticcheck // it is there, and it is short
	})
	in, _ := g.inbox(t, inbox.Config{})
	for i, r := range in.HandleBatch(t.Context(), []message.Message{event("a"), event("b"), event("")}, g.book) {
		if malformed := i == 2; r.Err != nil || r.Wait < slow != malformed {
			t.Errorf("message %d: %+v", i, r)
		}
	}
}
