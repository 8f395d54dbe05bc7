package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Taker = (*Store)(nil)

const (
	sqliteTake = `update once_operation set state = 1, fence = fence + 1, claim = ?3, lease_until = ` + sqliteNow + ` + ?4
 where scope = ?1 and key = ?2 and state = 4 returning scope, key, ` + sqliteColumns
	mysqlWaiting = "select o.scope, o.`key`, " + mysqlColumns + " from "
	mysqlTake    = " set o.state = 1, o.fence = o.fence + 1, o.claim = ?, o.lease_until = " + mysqlNow + " + ?"
)

// Take implements [upkeep.Taker], in one transaction. The transaction has one statement on PostgreSQL, three
// statements on MySQL, and one statement for each operation on SQLite, because on SQLite a statement needs no
// round trip.
func (s *Store) Take(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration, then store.Statement) (taken []upkeep.Entry, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	// The rows are locked in the same order as by renewals and Change.Held, so that they do not deadlock.
	ids = slices.SortedFunc(slices.Values(ids), func(a, b store.ID) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
	})
	err = s.leasing(ctx, lease, func(own context.Context, t *txn) (err error) {
		switch s.dialect.name {
		case sqlplane.PostgreSQL:
			var rows [][]any
			for _, id := range ids {
				rows = append(rows, []any{id.Scope, id.Key})
			}
			taken, err = collectTaken(own, t.tx, pgsql.Take(then.SQL), append(dialect.Arrays(rows), nonce, millis(lease))...)
			return err
		case sqlplane.MySQL:
			taken, err = t.takeMySQL(own, ids, nonce, lease)
		default:
			taken, err = t.takeSQLite(own, ids, nonce, lease)
		}
		if err != nil || len(taken) == 0 {
			return err
		}
		return s.writes(ctx, t.tx, []store.Statement{s.thenAlso(then.SQL, taken)})
	})
	if err != nil {
		return nil, err
	}
	for i := range taken {
		// The caller does not need them, and they may be large.
		taken[i].Request, taken[i].Result = nil, store.Result{}
	}
	return taken, nil
}

// takeMySQL first locks the rows that no other transaction has locked, because an update would wait for the locked rows.
func (t *txn) takeMySQL(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration) ([]upkeep.Entry, error) {
	var onReplica bool
	if err := t.tx.QueryRowContext(ctx, "select "+mysqlReplica).Scan(&onReplica); err != nil {
		return nil, err
	}
	if onReplica {
		return nil, errReplica
	}
	those, values := idsMySQL(ids, "s", "k")
	taken, err := collectTaken(ctx, t.tx, fill(mysqlWaiting+those+" those "+mysqlByKey+" where o.state = 4 for update skip locked", values...))
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	ids = nil
	for i := range taken {
		e := &taken[i]
		ids = append(ids, e.ID)
		e.State, e.Fence, e.Nonce = store.StateRunning, e.Fence+1, nonce
	}
	those, values = idsMySQL(ids, "s", "k")
	_, err = t.tx.ExecContext(ctx, fill("update "+those+" those "+mysqlByKey+mysqlTake, append(values, nonce, millis(lease))...))
	return taken, err
}

// idsMySQL returns a table of ids, by which rows are read one by one: see thoseMySQL.
func idsMySQL(ids []store.ID, scope, key string) (text string, values []any) {
	for _, id := range ids {
		values = append(values, id.Scope, id.Key)
	}
	return "(select ? as " + scope + ", ? as " + key + strings.Repeat(" union all select ?, ?", len(ids)-1) + ")", values
}

func (t *txn) takeSQLite(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration) (taken []upkeep.Entry, err error) {
	for _, id := range ids {
		list, err := collectTaken(ctx, t.tx, sqliteTake, id.Scope, id.Key, nonce, millis(lease))
		if err != nil {
			return nil, err
		}
		taken = append(taken, list...)
	}
	return taken, nil
}

// thenAlso returns the statement that is executed together with Take, including the table of the taken operations.
func (s *Store) thenAlso(query string, taken []upkeep.Entry) store.Statement {
	var ids []store.ID
	var args []any
	for _, e := range taken {
		ids = append(ids, e.ID)
		args = append(args, e.Scope, e.Key)
	}
	if s.dialect.name == sqlplane.MySQL {
		text, values := idsMySQL(ids, "scope", "`key`")
		return store.Statement{SQL: strings.Replace(query, "taken t", fill(text, values...)+" t", 1)}
	}
	return store.Statement{SQL: "with taken (scope, key) as (values (?, ?)" + strings.Repeat(", (?, ?)", len(ids)-1) + ") " + query, Args: args}
}

func collectTaken(ctx context.Context, tx *sql.Tx, query string, args ...any) (taken []upkeep.Entry, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e upkeep.Entry
		r, err := scan(rows, &e.Scope, &e.Key)
		if err != nil {
			return nil, err
		}
		e.Record = r.Record
		taken = append(taken, e)
	}
	return taken, rows.Err()
}
