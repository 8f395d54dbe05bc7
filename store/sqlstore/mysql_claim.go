package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// On MySQL and MariaDB, a claim is a lock of the session (GET_LOCK). The store asks for the lock without waiting, and
// releases it after COMMIT or ROLLBACK. The record is inserted when the transaction commits. If the lock does not work,
// the primary key of the record is the last protection. A node of Galera and a proxy that shares sessions do not keep such
// locks. An earlier release of once claims on MariaDB by inserting the record first.

// claimMySQL begins a transaction that holds the claim. If it returns neither a transaction nor an error, the returned
// record is the reason.
//
// A broken connection is replaced, as in open. This is safe, because nothing was committed on it.
func (s *Store) claimMySQL(ctx context.Context, opts store.BeginOptions) (t *txn, rec store.Record, err error) {
	for tries := -1; ; tries-- {
		var isBroken bool
		if t, rec, isBroken, err = s.tryClaim(ctx, opts); err == nil || !isBroken || ctx.Err() != nil || store.KindOf(err) == store.KindBusy {
			return t, rec, err
		}
		// As in openBy: each idle connection may be broken, and one more try is for a new connection.
		if tries < 0 {
			tries = 1 + s.db.Stats().Idle
		}
		if tries == 0 {
			return nil, rec, err
		}
	}
}

// tryClaim makes one try of claimMySQL on one connection.
func (s *Store) tryClaim(ctx context.Context, opts store.BeginOptions) (_ *txn, _ store.Record, isBroken bool, err error) {
	t, own, err := s.connect(ctx, opts)
	if err != nil {
		return nil, store.Record{}, false, s.down(err)
	}
	granted, err := t.claimMySQL(ctx, own, opts)
	switch {
	case err != nil:
		if errors.Is(err, errReplica) {
			// The connection leads to a replica. In the pool, it would make the next operation fail as well.
			sqlguard.Drop(t.conn)
		}
		isBroken = broken(t.conn)
		if t.tx != nil {
			_ = t.tx.Rollback()
		}
		err = s.down(err)
	case granted:
		t.id = opts.ID
		return t, t.seen.row.live(), false, nil
	}
	t.release()
	return nil, t.seen.row.live(), isBroken, err
}

// claimMySQL asks for the lock of the operation, looks the record up, and begins the transaction. For a first attempt
// and a batch, the claim is only arranged before BEGIN. It is then sent together with a later statement, and fails
// together with this statement.
func (t *txn) claimMySQL(ctx, own context.Context, opts store.BeginOptions) (granted bool, err error) {
	t.blind = t.s.several && (opts.First || opts.Batch) && opts.StaleAfter.IsZero()
	t.batch = t.blind && opts.Batch
	if t.blind {
		t.guard.Opening(append(t.timeoutsMySQL(opts.Timeouts), t.s.claimOrFail(opts))...)
	} else if granted, err = t.lookMySQL(ctx, opts); !granted || err != nil {
		return false, err
	}
	// The lock belongs to the session, so neither COMMIT nor ROLLBACK releases it.
	t.guard.DoAfter(t.s.unlock(opts.ID))
	// A rollback does not undo writes to tables without transactions.
	t.guard.IfIncomplete(t.s.recordUnknown(opts.ID))
	t.guard.BeforeMark(func(ctx context.Context, session sqlguard.Session) error {
		for _, statement := range t.replaceExpired(opts.ID, mysqlClaim, opts.ID.Scope, opts.ID.Key) {
			if err := session.Run(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if t.tx, err = t.conn.BeginTx(t.guard.Context(own), &sql.TxOptions{Isolation: levels[opts.Isolation]}); err != nil {
		t.letGo(ctx, opts.ID)
		return false, err
	}
	return true, t.setTimeouts(ctx, opts.Timeouts)
}

// lookMySQL asks for the lock and looks the record up. It puts the record into t.seen.
func (t *txn) lookMySQL(ctx context.Context, opts store.BeginOptions) (granted bool, err error) {
	found, locked, err := t.s.lockMySQL(ctx, t.conn, opts, true)
	if err != nil {
		t.letGo(ctx, opts.ID)
		return false, err
	}
	t.seen.row = found
	if !locked && found.live().State == store.StateAbsent { // the transaction that holds the lock has not committed yet
		t.seen.row = row{Record: store.Record{State: store.StateRunning}}
	}
	return locked, nil
}

// replaceExpired returns the statements that insert a record. If the old record has expired, they first delete it.
func (t *txn) replaceExpired(id store.ID, insert string, values ...any) (statements []string) {
	if t.seen.row.expired {
		statements = append(statements, fill(mysqlDropExpired, id.Scope, id.Key))
	}
	return append(statements, fill(insert, values...))
}

// letGo releases the lock of an operation if the session holds it. If this fails, letGo closes the connection.
func (t *txn) letGo(ctx context.Context, id store.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTime)
	defer cancel()
	if sqlguard.OnConn(func() error { _, err := t.conn.ExecContext(ctx, "do "+t.s.unlock(id)); return err }) != nil {
		// In the pool, the session would keep the lock of the operation.
		sqlguard.Drop(t.conn)
	}
}

// recordIsMissing reports whether the record of the claimed operation must still be inserted.
func (t *txn) recordIsMissing() bool {
	return t.conn != nil && !t.id.IsZero() && !t.guard.WroteBeforeMark()
}

// claimed reports whether a statement has written exactly one row.
func claimed(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}
