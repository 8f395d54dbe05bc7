package outbox

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
)

// cell is a store and a destination of relays.
type cell struct{ store, to string }

// onCells runs a test on every cell that choose does not skip.
func onCells(t *testing.T, choose func(t *testing.T, c cell), onPgx func(*testing.T, *fixture[pgx.Tx], relayPlan, destination), onSQL func(*testing.T, *fixture[*sql.Tx], relayPlan, destination)) {
	t.Helper()
	for to, open := range destinations {
		t.Run(harness.Pgx+", "+to, func(t *testing.T) {
			choose(t, cell{harness.Pgx, to})
			t.Parallel()
			p := relayPlan{Database: migrated(t, harness.Pgx), To: to}
			d := open(t, &p)
			onPgx(t, openPgx(t, p.Database), p, d)
		})
		for _, kind := range harness.SQL {
			if kind == harness.Group {
				continue
			}
			t.Run(kind+", "+to, func(t *testing.T) {
				choose(t, cell{kind, to})
				t.Parallel()
				p := relayPlan{Database: migrated(t, kind), To: to}
				d := open(t, &p)
				onSQL(t, openSQL(t, p.Database), p, d)
			})
		}
	}
}
