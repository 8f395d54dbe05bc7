package inbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestRunNeedsTables: without them, Run returns an error that says what to do, and tells the observer nothing.
func TestRunNeedsTables(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRunNeedsTables[pgx.Tx], testRunNeedsTables[*sql.Tx])
}

func testRunNeedsTables[TX any](t *testing.T, g *fixture[TX]) {
	g.exec(t, "drop table once_deadletter")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := inbox.New(g.engine, inbox.Config{Consumer: "billing", Observer: observerFunc(func(e inbox.Event) {
		t.Errorf("%s: %v", e.Type, e.Err)
		cancel() // Run would wait for the tables for ever
	})})
	if err := in.Run(ctx, g.book); !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("%v", err)
	}
}

type observerFunc func(inbox.Event)

func (f observerFunc) Observe(_ context.Context, e inbox.Event) { f(e) }
