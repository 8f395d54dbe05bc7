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
	"strings"
	"time"

	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// Table is the operations of one database, and what is kept beside them. Its methods
// can be called concurrently.
type Table struct {
	db     *sql.DB
	d      database
	caches []Cache
}

// Cache is told of every operation that is forgotten; *once.Engine is one.
type Cache interface{ InvalidateCache(scope, key string) }

// Open returns the tables of db, which speaks d. It does not ask the database. Engines
// of this process with a Config.Cache are to be among caches; those of others go on
// replaying what is forgotten for up to their Config.CacheFor.
func Open(db *sql.DB, d store.Dialect, caches ...Cache) (*Table, error) {
	known, ok := dialects[d]
	if !ok {
		return nil, fmt.Errorf("admin: no dialect %q. Try: %s, %s or %s", d, store.PostgreSQL, store.MySQL, store.SQLite)
	}
	return &Table{db, known, caches}, nil
}

// Now returns the database's clock, by which everything is judged.
func (t *Table) Now(ctx context.Context) (time.Time, error) {
	var now moment
	err := t.db.QueryRowContext(ctx, "select "+t.d.now).Scan(&now)
	return now.time(), err
}

// database is what differs between databases. Texts are written with ? in the order
// of their arguments.
type database struct {
	now      string
	key      string // the column
	lock     string // ends a select whose rows are to be changed
	numbered bool   // arguments are $1, $2, ...
	stored   func(time.Time) any
}

var dialects = map[store.Dialect]database{
	store.PostgreSQL: {
		now: dialect.PostgreSQLNow, key: dialect.KeyColumn(store.PostgreSQL), lock: " for update", numbered: true,
		stored: func(t time.Time) any { return t },
	},
	store.MySQL: {
		now: dialect.MySQLNow, key: dialect.KeyColumn(store.MySQL), lock: " for update",
		stored: func(t time.Time) any { return t.UnixMilli() },
	},
	store.SQLite: {
		now: dialect.SQLiteNow, key: dialect.KeyColumn(store.SQLite),
		stored: func(t time.Time) any { return t.UnixMilli() },
	},
}

// text makes of a neutral text one of the dialect: NOW is the clock, KEY the column.
func (d database) text(query string) string {
	query = strings.NewReplacer("NOW", d.now, "KEY", d.key).Replace(query)
	if !d.numbered {
		return query
	}
	return dialect.Numbered(query)
}

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

// moment scans what the databases keep of a time: a timestamp, or milliseconds since
// 1970. NULL is nil.
type moment struct{ at *time.Time }

func (m *moment) Scan(v any) error {
	var t time.Time
	switch v := v.(type) {
	case nil:
		return nil
	case time.Time:
		t = v
	case int64:
		t = time.UnixMilli(v)
	case float64: // of a lease or retention with a fraction of a millisecond
		t = time.UnixMilli(int64(v))
	default:
		return fmt.Errorf("admin: a time stored as %T", v)
	}
	t = t.UTC().Truncate(time.Millisecond)
	m.at = &t
	return nil
}

func (m *moment) time() time.Time {
	if m.at == nil {
		return time.Time{}
	}
	return *m.at
}
