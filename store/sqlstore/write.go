package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Writer[*sql.Tx] = (*Store)(nil)

// Write implements [upkeep.Writer]. Before the change, Write sets a savepoint.
func (s *Store) Write(ctx context.Context, caller *sql.Tx, c store.Change) (store.Record, error) {
	j, _, err := s.Join(ctx, caller, store.BeginOptions{})
	if err != nil {
		return store.Record{}, err
	}
	switch err := j.Commit(ctx, c); {
	case err == nil:
		return c.Next, nil
	case store.KindOf(err) != store.KindTaken || c.ID.IsZero() || errors.Is(err, errNotHeld):
		return store.Record{}, err
	default:
		return s.seen(ctx, caller, c, err)
	}
}

// seen returns the record that has made a Write fail, as the caller's transaction sees it.
func (s *Store) seen(ctx context.Context, caller *sql.Tx, c store.Change, failed error) (store.Record, error) {
	var r row
	var err error
	switch s.dialect.name {
	case sqlplane.MySQL:
		r, err = lookUp(ctx, caller, fill(mysqlRead, c.ID.Scope, c.ID.Key))
	case sqlplane.PostgreSQL:
		r, err = scan(caller.QueryRowContext(ctx, pgsql.Read, c.ID.Scope, c.ID.Key))
	default:
		r, err = scan(caller.QueryRowContext(ctx, s.dialect.read, c.ID.Scope, c.ID.Key))
	}
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return store.Record{}, s.down(err)
	case r.live().State == store.StateAbsent && c.Expect.Fence == 0: // an open transaction holds the claim
		return store.Record{State: store.StateRunning}, failed
	}
	return r.live(), failed
}
