package hold

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestExhaustedPoolStillRenews: handlers have all connections of the pool for longer than TTL, and others wait for one. The node
// renews all the while.
func TestExhaustedPoolStillRenews(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		if name == harness.SQLite {
			t.Skip("SQLite lets one transaction write at a time, so the case cannot exist")
		}
		db, d := newDB(t, name)
		const conns, parts = 2, 6
		small := open(t, d, conns)
		const long = 3 * ttl
		first := start(t, small, hold.Config{Parts: parts, TTL: long})
		harness.Until(t, func() error { return even(parts, first) })
		release := make(chan struct{})
		var inside, handlers sync.WaitGroup
		inside.Add(conns)
		for i := range conns + 2 {
			handlers.Go(func() {
				err := small.Within(context.WithoutCancel(t.Context()), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
					_, err := r.Exec(ctx, statement(db, "insert into once_hold_node (work, node, expires, leaving) values ('x', ?, NOW, 0)", fmt.Sprint(i)))
					if i < conns {
						inside.Done()
						<-release
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
			if i == conns-1 {
				inside.Wait() // the others find the pool exhausted
			}
		}
		began := expires(t, db)
		harness.Until(t, func() error {
			if now := expires(t, db); now.Sub(began) < 3*long {
				return fmt.Errorf("the node expires at %v; when the pool was exhausted, that was at %v", now, began)
			}
			return nil
		})
		close(release)
		handlers.Wait()
	})
}

// expires is when the node of the work expires.
func expires(t *testing.T, db sqlplane.Database) (at time.Time) {
	t.Helper()
	must(t, db.Pool().Query(t.Context(), statement(db, "select expires from once_hold_node where work = ?", work), func(r sqlplane.Row) error {
		return r.Scan((*dialect.Time)(&at))
	}))
	return at
}
