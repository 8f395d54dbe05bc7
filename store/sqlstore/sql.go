package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

var _ sqlplane.SQL[*sql.Tx] = (*Store)(nil)

// Dialect implements [sqlplane.Database].
func (s *Store) Dialect() sqlplane.Dialect { return s.dialect.name }

// On implements [sqlplane.SQL]. The method Append of the returned Runner runs a statement immediately, so the
// store does not sort statements by their Locks: call Append for statements in the order of their Locks.
// After the first statement of the Runner, a failed statement prevents the commit of tx, as after Join. If
// you have opened tx yourself, the Runner costs one additional round trip, except on SQLite.
func (s *Store) On(tx *sql.Tx) sqlplane.Runner { return &txRunner{s: s, tx: tx} }

// Pool implements [sqlplane.Database]. On SQLite, a statement that writes waits in the queue of the writers
// like an operation. A statement that only reads does not wait for writers; every SELECT counts as a
// statement that only reads, even if the SELECT calls a function that writes.
func (s *Store) Pool() sqlplane.Runner { return poolRunner{s} }

// Within implements [sqlplane.Database].
func (s *Store) Within(ctx context.Context, isolation store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	t, _, err := s.Begin(ctx, store.BeginOptions{Isolation: isolation})
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // fn has panicked
			_ = t.Rollback(ctx)
		}
	}()
	err = fn(ctx, s.On(t.Tx()))
	returned = true
	if err == nil {
		return t.Commit(ctx, store.Change{})
	}
	if undo := t.Rollback(ctx); store.KindOf(undo) == store.KindRetry { // fn may have read data that was not committed after that
		return errors.Join(undo, err)
	}
	return err
}

// txRunner runs statements in a transaction that the guard watches.
type txRunner struct {
	s      *Store
	tx     *sql.Tx
	joined bool
}

// Exec implements [sqlplane.Runner].
func (r *txRunner) Exec(ctx context.Context, st store.Statement) (rows int64, err error) {
	err = r.guarded(ctx, st, func() error {
		rows, err = r.s.exec(ctx, r.tx, st)
		return err
	})
	return rows, err
}

// Query implements [sqlplane.Runner].
func (r *txRunner) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	var stopped error
	err := r.guarded(ctx, st, func() (err error) {
		stopped, err = r.s.query(ctx, r.tx, st, each)
		return err
	})
	if err != nil {
		return err
	}
	return stopped
}

// Append implements [sqlplane.Runner].
func (r *txRunner) Append(ctx context.Context, st store.Statement) error {
	_, err := r.Exec(ctx, st)
	return err
}

// guarded runs fn, which runs st. After an error the transaction cannot commit, even if the guard has not seen the error.
func (r *txRunner) guarded(ctx context.Context, st store.Statement, fn func() error) error {
	if !r.joined {
		switch err := new(sqlguard.Txn).JoinTx(ctx, r.tx, st.SQL); {
		case errors.Is(err, sqlguard.ErrUnguarded):
			return &store.Error{Kind: store.KindMisused, Err: err}
		case err != nil:
			return r.s.statementFailed(err)
		}
		r.joined = true
	}
	err := fn()
	if err == nil {
		return nil
	}
	sqlguard.FailTx(ctx, r.tx, st.SQL, err)
	if r.s.refusedByDriver(ctx, err, func(ctx context.Context) error { return sqlguard.PingTx(ctx, r.tx) }) {
		return &store.Error{Kind: store.KindOther, Err: err}
	}
	return r.s.statementFailed(err)
}

// poolRunner runs each statement in a separate transaction.
type poolRunner struct{ s *Store }

// Exec implements [sqlplane.Runner].
func (p poolRunner) Exec(ctx context.Context, st store.Statement) (rows int64, err error) {
	if p.needsTx(st) {
		err = p.s.Within(ctx, store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
			rows, err = r.Exec(ctx, st)
			return err
		})
		return rows, err
	}
	err = p.run(ctx, st, func(conn *sql.Conn) error {
		rows, err = p.s.exec(ctx, conn, st)
		return err
	})
	return rows, err
}

// Query implements [sqlplane.Runner].
func (p poolRunner) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	var stopped error
	var err error
	if p.needsTx(st) {
		err = p.s.Within(ctx, store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
			err := r.Query(ctx, st, func(row sqlplane.Row) error {
				stopped = each(row)
				return stopped
			})
			if stopped != nil { // the writes of the statement stay, as on the other databases
				err = nil
			}
			return err
		})
	} else {
		err = p.run(ctx, st, func(conn *sql.Conn) (err error) {
			stopped, err = p.s.query(ctx, conn, st, each)
			return err
		})
	}
	if err != nil {
		return err
	}
	return stopped
}

// Append implements [sqlplane.Runner].
func (p poolRunner) Append(ctx context.Context, st store.Statement) error {
	_, err := p.Exec(ctx, st)
	return err
}

// needsTx reports whether st must run in an explicit transaction. A write to SQLite waits in the queue of the writers. A
// statement with a required number of rows must be undone if it affects another number.
func (p poolRunner) needsTx(st store.Statement) bool {
	return st.Rows > 0 || p.s.file != nil && !reads(st)
}

// reads reports whether st only reads.
func reads(st store.Statement) bool {
	reads, _ := sqlguard.SQLiteEffects(st.SQL) // the other databases have the same words for statements that read
	return reads
}

// run runs fn, which runs st, on a connection outside a transaction.
func (p poolRunner) run(ctx context.Context, st store.Statement, fn func(*sql.Conn) error) error {
	for tries := 1 + p.s.db.Stats().Idle; ; tries-- { // idle connections of the pool may be broken
		conn, err := p.s.acquire(ctx, store.BeginOptions{})
		if err != nil {
			return p.s.down(err)
		}
		refused, err := p.runOn(ctx, conn, fn)
		if err == nil {
			return nil
		}
		// Drivers of PostgreSQL report some lost answers as connections that were never used, so only a read is sent again.
		unsent := errors.Is(err, driver.ErrBadConn) && (p.s.dialect.name != sqlplane.PostgreSQL || reads(st))
		if unsent && tries > 0 && ctx.Err() == nil {
			// Nothing was sent, so the statement cannot run twice.
			continue
		}
		switch {
		case refused:
			return &store.Error{Kind: store.KindOther, Err: err}
		case unsent, reads(st), guards[p.s.dialect.name].Refused(err), errors.As(err, new(*store.Error)):
			return p.s.statementFailed(err)
		}
		p.s.forgetPacket()
		return &store.Error{Kind: store.KindLost, Err: err}
	}
}

// runOn runs fn on a connection, and returns the connection to the pool. If refused is true, the driver has refused the
// statement.
func (p poolRunner) runOn(ctx context.Context, conn *sql.Conn, fn func(*sql.Conn) error) (refused bool, err error) {
	defer func() { _ = conn.Close() }() // also if fn panics; the pool drops a broken connection
	if err = fn(conn); err == nil {
		return false, nil
	}
	if p.s.readOnly(err) { // another connection may lead to the primary
		sqlguard.Drop(conn)
	}
	return p.s.refusedByDriver(ctx, err, conn.PingContext), err
}

// refusedByDriver reports whether err comes from the driver, for example because of an argument, and not from the
// database or the connection. An answer is lost only together with its connection, so a working connection proves this.
func (s *Store) refusedByDriver(ctx context.Context, err error, ping func(context.Context) error) bool {
	_, _, known := s.dialect.classify(err)
	switch {
	case known, tooLarge(err), errors.As(err, new(*store.Error)), errors.As(err, new(*sqlguard.RefusedError)), errors.As(err, new(*sqlguard.StatementError)),
		errors.As(err, new(*lateError)),
		errors.Is(err, sql.ErrTxDone), errors.Is(err, driver.ErrBadConn), ctx.Err() != nil:
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, restoreTime)
	defer cancel()
	return ping(ctx) == nil
}

// executor is a transaction, or a connection outside a transaction.
type executor interface {
	querier
	rowQuerier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// exec runs a statement and returns how many rows it has affected.
func (s *Store) exec(ctx context.Context, on executor, st store.Statement) (int64, error) {
	if err := s.checkSize(ctx, on, largestValue(st.Args)); err != nil {
		return 0, err
	}
	result, err := on.ExecContext(ctx, st.SQL, st.Args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, &lateError{err}
	}
	return n, checkRows(st, n)
}

// query runs a statement that returns rows. The result stopped is the error of each.
func (s *Store) query(ctx context.Context, on executor, st store.Statement, each func(sqlplane.Row) error) (stopped, err error) {
	if err := s.checkSize(ctx, on, largestValue(st.Args)); err != nil {
		return nil, err
	}
	rows, err := on.QueryContext(ctx, st.SQL, st.Args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var n int64
	for rows.Next() {
		n++
		if stopped = each(rows); stopped != nil {
			return stopped, nil
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, &lateError{err}
	}
	return nil, checkRows(st, n)
}

// lateError is an error after the answer of the database: the statement may have been applied.
type lateError struct{ error }

func (e *lateError) Unwrap() error { return e.error }

// checkRows returns an error if st has affected or returned another number of rows than st.Rows.
func checkRows(st store.Statement, n int64) error {
	if st.Rows == 0 || n == int64(st.Rows) {
		return nil
	}
	return &store.Error{Kind: store.KindOther, Err: fmt.Errorf("%w: %d rows were affected, %d rows are required: %s", store.ErrRows, n, st.Rows, st.SQL)}
}

// statementFailed classifies the error of a statement of a capability: the statement was not applied.
func (s *Store) statementFailed(err error) error {
	var refused *sqlguard.RefusedError
	var byGuard *sqlguard.StatementError
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return &store.Error{Kind: store.KindMisused, Err: errTxOver}
	case errors.Is(err, sqlguard.ErrEnded):
		return &store.Error{Kind: store.KindEnded, Err: err}
	case errors.As(err, &refused): // an earlier statement has failed, and its error may say that another run may succeed
		return &store.Error{Kind: cmp.Or(s.Classify(err), store.KindAborted), Err: err}
	case errors.As(err, new(*store.Error)):
		return err
	case errors.As(err, &byGuard):
		return &store.Error{Kind: cmp.Or(s.Classify(err), store.KindMisused), Err: err}
	case s.dialect.undefined(err):
		return &store.Error{Kind: store.KindUnavailable, Err: notMigrated(err)}
	case s.readOnly(err):
		return &store.Error{Kind: store.KindUnavailable, Err: err}
	}
	return s.failed(err, false)
}

var errTxOver = errors.New("the transaction has ended, so the statement was not run. Try: run the statement before Commit or Rollback")
