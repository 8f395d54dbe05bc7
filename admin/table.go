// Package admin is for operators of stored operations: show one, list them, forget one, and
// see who has done so. The command once keys uses it.
//
//	table, err := admin.Open(db, store.PostgreSQL)
//	...
//	detail, err := table.Forget(ctx, admin.ForgetRequest{
//		Scope: "acme POST /refunds", Key: "8e03978e",
//		Who: "privacy service", Reason: "request 4711 for erasure",
//	})
//
// It reads and writes the tables of the SQL stores through any *sql.DB, guarded or
// not. A pgx pool becomes one with stdlib.OpenDBFromPool.
package admin

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// Table is the operations of one database, and what is kept beside them. Its methods
// can be called concurrently.
type Table struct {
	db     *sql.DB
	d      store.Dialect
	caches []Cache
}

// Cache is told of every operation that is forgotten; *once.Engine is one.
type Cache interface{ InvalidateCache(scope, key string) }

// Open returns the tables of db, which speaks d. It does not ask the database. Engines
// of this process with a Config.Cache are to be among caches; those of others go on
// replaying what is forgotten for up to their Config.CacheFor.
func Open(db *sql.DB, d store.Dialect, caches ...Cache) (*Table, error) {
	switch d {
	case store.PostgreSQL, store.MySQL, store.SQLite:
		return &Table{db, d, caches}, nil
	}
	return nil, fmt.Errorf("admin: no dialect %q. Try: %s, %s or %s", d, store.PostgreSQL, store.MySQL, store.SQLite)
}

// Now returns the database's clock, by which everything is judged.
func (t *Table) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := t.db.QueryRowContext(ctx, t.text("select NOW")).Scan((*dialect.Time)(&now))
	return shown(now), err
}

// text is a query in the SQL of the database: see package dialect.
func (t *Table) text(query string) string { return dialect.Text(t.d, query) }

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// collect runs a query and scans its rows.
func collect[T any](ctx context.Context, q querier, query string, args []any, scan func(*sql.Rows) (T, error)) (list []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// shown is a time in the precision that all databases have.
func shown(t time.Time) time.Time { return t.Truncate(time.Millisecond) }

// shownOrNil is nil for a time that is not set.
func shownOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	at := shown(t)
	return &at
}
