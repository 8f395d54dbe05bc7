// Package admin is for operators of stored operations: show one, list them, forget one, and
// see who has done so. The command once keys uses it.
//
//	a := admin.New(s) // s is the SQL store of the engine
//	...
//	detail, err := a.Forget(ctx, admin.ForgetRequest{
//		Scope: "acme POST /refunds", Key: "8e03978e",
//		Who: "privacy service", Reason: "request 4711 for erasure",
//	})
//
// It reads and writes the tables of a *pgxstore.Store or *sqlstore.Store through the store, and
// opens no connections of its own. Errors of the database are a [*store.Error].
package admin

import (
	"context"
	"time"

	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// Admin reads and changes the operations of one database, and the logs beside them. Its methods
// can be called concurrently.
type Admin struct {
	db     store.Database
	caches []Cache
}

// Cache is told of every operation that is forgotten; *once.Engine is one.
type Cache interface{ InvalidateCache(scope, key string) }

// New returns an Admin of db, which has been migrated. It does not ask the database. Engines
// of this process with a Config.Cache are to be among caches; those of others go on
// replaying what is forgotten for up to their Config.CacheFor.
func New(db store.Database, caches ...Cache) *Admin { return &Admin{db, caches} }

// Now returns the database's clock, by which everything is judged.
func (a *Admin) Now(ctx context.Context) (now time.Time, err error) {
	err = a.db.Pool().Query(ctx, a.statement("select NOW"), func(row store.Row) error {
		return row.Scan((*dialect.Time)(&now))
	})
	return shown(now), err
}

// statement is a query, written as package dialect says, with its arguments.
func (a *Admin) statement(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(a.db.Dialect(), query), Args: args}
}

// collect runs a query and scans its rows.
func collect[T any](ctx context.Context, r store.Runner, s store.Statement, scan func(store.Row) (T, error)) (list []T, err error) {
	err = r.Query(ctx, s, func(row store.Row) error {
		one, err := scan(row)
		list = append(list, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
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
