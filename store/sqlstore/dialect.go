package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

var (
	drivers  = map[string]sqlplane.Dialect{"sqlite": sqlplane.SQLite, "sqlite3": sqlplane.SQLite, "pgx": sqlplane.PostgreSQL, "pgx/v5": sqlplane.PostgreSQL, "postgres": sqlplane.PostgreSQL, "mysql": sqlplane.MySQL}
	guards   = map[sqlplane.Dialect]sqlguard.Dialect{sqlplane.SQLite: sqlguard.SQLite, sqlplane.PostgreSQL: sqlguard.PostgreSQL, sqlplane.MySQL: sqlguard.MySQL}
	dialects = []database{sqlite, postgres, mysql}
)

// database holds the differences between the databases. A statement has the same arguments, by number, in all
// databases.
type database struct {
	name sqlplane.Dialect

	read       string                                                             // scope, key; not of sqlplane.PostgreSQL
	timeouts   func(context.Context, *sql.Tx, store.Timeouts) error               // limits the waits of the transaction; nil if the database has no such limits
	claim      func(context.Context, *sql.Tx, store.BeginOptions) (lookup, error) // claims and looks up
	expired    string                                                             // scope, key
	insert     string                                                             // scope, key, claim, fingerprint, status, kind, head, body, retain, start, request, trace, name
	swapInsert string                                                             // scope, key, lock, fields...
	swapUpdate string                                                             // scope, key, fields..., expectation...
	swapKeep   string                                                             // as swapUpdate, without fingerprint, request, trace and name
	swapDelete string                                                             // scope, key, expectation...
	synced     string                                                             // makes the commit of a transaction that has only read wait for the standby; "" if the database has no standbys
	lock       string                                                             // locks migrations; "" if a transaction excludes other transactions without a lock
	classify   func(error) (kind store.Kind, taken, known bool)                   // the kind of a statement's error; taken: whether it means "taken" if the statement has written the record
	undefined  func(error) bool                                                   // reports whether a table or column does not exist
}

// lookup is the answer to a claim and a look-up.
type lookup struct {
	start   any // the start of the transaction, if its identity is checked when the record is written
	granted bool
	watched bool // PostgreSQL tracks the reads of the transaction (SSI), so row is not looked up
	row     row
}

var postgres = database{
	name: sqlplane.PostgreSQL,
	timeouts: func(ctx context.Context, tx *sql.Tx, t store.Timeouts) error {
		if max(t.Statement, t.Lock, t.Idle) == 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, pgsql.Bounds, pgsql.Bound(t.Statement), pgsql.Bound(t.Lock), pgsql.Bound(t.Idle))
		return err
	},
	claim:      claimPostgres,
	expired:    pgsql.Expired,
	insert:     pgsql.InsertDoneRequest,
	swapInsert: pgsql.SwapInsert,
	swapUpdate: pgsql.SwapUpdate,
	swapKeep:   pgsql.SwapKeep,
	swapDelete: pgsql.SwapDelete,
	synced:     pgsql.Synced,
	lock:       pgsql.MigrationLock,
	classify: func(err error) (kind store.Kind, taken, known bool) {
		state := sqlguard.SQLState(err)
		return pgsql.Classify(state), pgsql.Taken(state), state != ""
	},
	undefined: func(err error) bool {
		state := sqlguard.SQLState(err)
		return state == pgsql.UndefinedTable || state == pgsql.UndefinedColumn && (strings.Contains(err.Error(), "trace") || strings.Contains(err.Error(), `"name"`))
	},
}

var errBusyTimeout = errors.New("sqlstore: busy_timeout of SQLite is 0, so a request fails immediately while another request writes. Try: _pragma=busy_timeout(5000) in the data source name")
