package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// At SERIALIZABLE, the look-up is sent before BEGIN, on the same connection. PostgreSQL tracks the reads of a
// transaction (SSI), and new keys are neighbours in the index. So operations with different keys would conflict. This
// costs one round trip; pgxstore needs none.

// looksAhead reports whether the look-up is sent before BEGIN. The first transaction at the default level finds out
// whether this level is SERIALIZABLE.
func (s *Store) looksAhead(opts store.BeginOptions) bool {
	return s.dialect.name == sqlplane.PostgreSQL && !opts.ID.IsZero() &&
		(opts.Isolation == store.Serializable || opts.Isolation == store.DefaultIsolation && s.watched.Load())
}

// lookAhead looks the record up before BEGIN. It waits no longer than the transaction would wait, because the timeouts of
// the transaction are not set yet.
func (t *txn) lookAhead(ctx context.Context, opts store.BeginOptions) (err error) {
	if bound := min(cmp.Or(opts.Timeouts.Lock, opts.Timeouts.Statement), cmp.Or(opts.Timeouts.Statement, opts.Timeouts.Lock)); bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bound)
		defer cancel()
	}
	t.seen.row, err = lookPostgres(ctx, t.conn, opts)
	switch {
	case errors.Is(err, pgsql.ErrRecovery):
		sqlguard.Drop(t.conn)
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &store.Error{Kind: store.KindBusy, Err: err} // another connection would wait for as long
	case err != nil && t.conn.PingContext(ctx) != nil:
		sqlguard.Drop(t.conn) // the connection broke while it was idle, and openBy uses another one
	}
	return err
}

// lookPostgres returns the record of an operation, in StateAbsent if no row exists. On a standby it returns an error,
// except for a finished record that need not be durable.
func lookPostgres(ctx context.Context, from rowQuerier, opts store.BeginOptions) (row, error) {
	var recovery bool
	r, err := scan(from.QueryRowContext(ctx, pgsql.Look, opts.ID.Scope, opts.ID.Key), &recovery)
	if err == nil {
		err = checkRecovery(recovery, r, opts)
	}
	return r, err
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func checkRecovery(recovery bool, r row, opts store.BeginOptions) error {
	if recovery && (opts.Durable || r.live().State != store.StateDone) {
		return pgsql.ErrRecovery
	}
	return nil
}

func claimPostgres(ctx context.Context, tx *sql.Tx, opts store.BeginOptions) (c lookup, err error) {
	var recovery bool
	from := tx.QueryRowContext(ctx, pgsql.Claim, opts.ID.Scope, opts.ID.Key, pgsql.LockID(opts.ID))
	if c.row, err = scan(from, &c.start, &c.granted, &recovery, &c.watched); err == nil {
		err = checkRecovery(recovery, c.row, opts)
	}
	return c, err
}

// lookWatched looks the record up inside a SERIALIZABLE transaction of the caller. It uses a probe, whose reads the
// server does not track. Without the claim, the probe would wait for the holder of the claim, so the record is read.
func (c *lookup) lookWatched(ctx context.Context, tx *sql.Tx, id store.ID) error {
	if c.granted {
		absent, err := probe(ctx, tx, id)
		if err != nil || absent {
			return err
		}
	}
	var err error
	c.row, err = scan(tx.QueryRowContext(ctx, pgsql.Read, id.Scope, id.Key))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return err
}

// probe reports whether no record exists. It inserts a row, and undoes the insert.
func probe(ctx context.Context, tx *sql.Tx, id store.ID) (absent bool, err error) {
	if _, err = tx.ExecContext(ctx, "savepoint once_probe"); err != nil {
		return false, err
	}
	r, err := tx.ExecContext(ctx, pgsql.Probe, id.Scope, id.Key)
	if err != nil {
		return false, err // the caller rolls back to an older savepoint
	}
	n, err := r.RowsAffected()
	for _, end := range []string{"rollback to savepoint once_probe", "release savepoint once_probe"} {
		if err == nil {
			_, err = tx.ExecContext(ctx, end)
		}
	}
	return n == 1, err
}

// beginPostgres begins again if the connection led to a standby, because the pool may have a connection to the primary,
// or may open one.
func (s *Store) beginPostgres(ctx context.Context, opts store.BeginOptions) (store.Transaction[*sql.Tx], store.Record, error) {
	for tries := -1; ; tries-- {
		t, rec, err := s.begin(ctx, opts)
		if !errors.Is(err, pgsql.ErrRecovery) {
			// Only after a connection to a standby, another try may find the primary.
			return t, rec, err
		}
		if tries < 0 {
			tries = 1 + s.db.Stats().Idle
		}
		if tries == 0 || ctx.Err() != nil {
			return nil, rec, err
		}
	}
}

// dropStandby returns err, the error of a write. If the server is a standby, it returns an error that says so, and drops
// the connection, so that the pool may connect to the primary.
func (t *txn) dropStandby(ctx context.Context, err error) error {
	if errors.Is(err, errReplica) {
		_ = t.tx.Rollback()
		sqlguard.Drop(t.conn)
		return err
	}
	if t.s.dialect.name != sqlplane.PostgreSQL || !pgsql.StandbyRefuses(sqlguard.SQLState(err)) {
		return err
	}
	_ = t.tx.Rollback()
	// This comes after the rollback, because in a failed transaction the server would refuse the question.
	var standby bool
	if sqlguard.OnConn(func() error { return t.conn.QueryRowContext(ctx, pgsql.Recovery).Scan(&standby) }) != nil || !standby {
		return err
	}
	sqlguard.Drop(t.conn)
	return t.s.down(pgsql.ErrRecovery)
}
