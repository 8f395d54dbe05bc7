package hold

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestReservedConnectionWorksWhileThePoolIsFull: a reserved connection works while transactions have all connections of the
// pool, and comes back after the server has ended it.
func TestReservedConnectionWorksWhileThePoolIsFull(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		_, d := newDB(t, name)
		db := open(t, d, 1)
		reserver, ok := store.As[sqlplane.Reserver](db)
		if !ok {
			t.Fatal("the store cannot reserve a connection")
		}
		own, release, err := reserver.Reserve()
		must(t, err)
		defer release()
		insert := func(node string) error {
			_, err := own.Pool().Exec(t.Context(), statement(db, "insert into once_hold_node (work, node, expires, leaving) values ('w', ?, NOW, 0)", node))
			return err
		}
		if name == harness.SQLite {
			must(t, insert("a"))
			return // a transaction has the file, not only a connection
		}
		must(t, db.Within(t.Context(), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
			must(t, insert("a"))
			id, kill := "select pg_backend_pid()", "select pg_terminate_backend(?)"
			if db.Dialect() == sqlplane.MySQL {
				id, kill = "select connection_id()", "kill ?"
			}
			var session int64
			must(t, own.Pool().Query(ctx, statement(db, id), func(row sqlplane.Row) error { return row.Scan(&session) }))
			if db.Dialect() == sqlplane.MySQL {
				run(t, r, statement(db, kill, session))
			} else {
				must(t, r.Query(ctx, statement(db, kill, session), func(sqlplane.Row) error { return nil }))
			}
			harness.Until(t, func() error { // the server ends it in its own time
				if err := insert("b"); !errors.Is(err, sqlplane.ErrDuplicate) {
					return fmt.Errorf("the connection has not come back: %w", err)
				}
				return nil
			})
			return nil
		}))
	})
}
