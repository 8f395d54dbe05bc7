package pgxstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Dialect implements [sqlplane.Database].
func (s *Store) Dialect() sqlplane.Dialect { return sqlplane.PostgreSQL }

// Pool implements [sqlplane.Database]: each statement is one round trip, without BEGIN.
func (s *Store) Pool() sqlplane.Runner { return poolRunner{s} }

// On implements [sqlplane.SQL]. In a transaction that this store has begun or joined, the method Append of the
// returned Runner sends a statement in the round trip of the commit. In any other transaction, Append runs the
// statement immediately.
func (s *Store) On(tx pgx.Tx) sqlplane.Runner { return txRunner{tx} }

// Within implements [sqlplane.Database].
func (s *Store) Within(ctx context.Context, isolation store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	t, _, err := s.Begin(ctx, store.BeginOptions{Isolation: isolation})
	if err != nil {
		return err
	}
	commits := false
	defer func() {
		if !commits { // also after a panic of fn
			_ = t.Rollback(ctx)
		}
	}()
	if err := fn(ctx, s.On(t.Tx())); err != nil {
		return err
	}
	// The flag is set before Commit, because Commit returns the connection to the pool even if it fails. After that, no
	// Rollback may follow.
	commits = true
	return t.Commit(ctx, store.Change{})
}

// txRunner runs statements in a transaction.
type txRunner struct{ tx pgx.Tx }

func (r txRunner) Exec(ctx context.Context, st store.Statement) (int64, error) {
	tag, err := r.tx.Exec(ctx, counted(st), st.Args...)
	if err != nil {
		return 0, r.failed(ctx, err)
	}
	return affected(st, tag), nil
}

func (r txRunner) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	rows, err := r.tx.Query(ctx, st.SQL, st.Args...)
	if err != nil {
		return r.failed(ctx, err)
	}
	refused, err := forEach(rows, each)
	if n := rows.CommandTag().RowsAffected(); err == nil && refused == nil && st.Rows > 0 && n != int64(st.Rows) {
		err = &store.Error{Kind: store.KindOther, Err: fmt.Errorf("%w: %d rows were affected, %d rows are required: %s", store.ErrRows, n, st.Rows, st.SQL)}
	}
	if err != nil {
		return r.failed(ctx, err)
	}
	return refused
}

func (r txRunner) Append(ctx context.Context, st store.Statement) error {
	if own, ok := r.tx.(*tx); ok {
		if err := own.append(st); err != nil {
			return r.failed(ctx, err)
		}
		return nil
	}
	_, err := r.Exec(ctx, st)
	return err
}

// failed classifies the error of a statement in a transaction. The transaction has not committed, even if an answer was
// lost.
func (r txRunner) failed(ctx context.Context, err error) error {
	pe := serverError(err)
	// The server does not know this error, and would still commit.
	if pe == nil {
		r.fail(ctx, err)
	}
	if known, done := statementError(err, pe); done {
		return known
	}
	kind := store.KindOther
	switch {
	case errors.Is(err, pgx.ErrTxClosed):
		kind = store.KindMisused
	case pe == nil && (ctx.Err() != nil || isClosed(r.tx)), pe != nil && fatal(pe):
		kind = store.KindUnavailable
	case pe != nil:
		if kind = pgsql.Classify(pe.Code); kind == store.KindLost {
			// COMMIT was not sent yet, so nothing was applied.
			kind = store.KindUnavailable
		}
	}
	return &store.Error{Kind: kind, Err: explained(err)}
}

// fail makes the transaction fail after an error that the server does not know. The handler may ignore the error, and
// the transaction must not commit without the statement.
func (r txRunner) fail(ctx context.Context, err error) {
	if own, ok := r.tx.(*tx); ok {
		if own.root.enter() == nil {
			_ = own.note(err)
			own.root.leave()
		}
		return
	}
	conn := r.tx.Conn()
	if errors.Is(err, pgx.ErrTxClosed) || conn == nil || conn.IsClosed() {
		return
	}
	answer := awaitAnswer(conn, abandonTime)
	// After a failed statement the server refuses the commit.
	_, e := r.tx.Exec(context.WithoutCancel(ctx), failing)
	_ = answer.stop(nil)
	if serverError(e) == nil && !errors.Is(e, pgx.ErrTxClosed) { // the statement was not sent, for example because rows are open
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

// failing is a statement that always fails.
const failing = "select 1 / 0"

// isClosed reports whether the connection of a transaction is closed. It does not open the transaction of a first
// attempt, as the method Conn would.
func isClosed(of pgx.Tx) bool {
	switch t := of.(type) {
	case *session:
		return t.conn.IsClosed()
	case *tx:
		return isClosed(t.Tx)
	}
	conn := of.Conn()
	return conn != nil && conn.IsClosed()
}

// poolRunner runs each statement in a separate transaction.
type poolRunner struct{ s *Store }

func (p poolRunner) Exec(ctx context.Context, st store.Statement) (rows int64, err error) {
	err = p.run(ctx, func(conn *pgx.Conn) (answered bool, err error) {
		tag, err := conn.Exec(ctx, counted(st), st.Args...)
		rows = affected(st, tag)
		return false, err
	})
	if err != nil {
		return 0, err
	}
	return rows, nil
}

func (p poolRunner) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	if st.Rows > 0 { // the rows are counted after the statement, and a statement outside a transaction is committed by then
		var refused error
		err := p.s.Within(ctx, store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
			err := r.Query(ctx, st, func(row sqlplane.Row) error {
				refused = each(row)
				return refused
			})
			if refused != nil { // the caller has read enough, so the writes of the statement stay
				err = nil
			}
			return err
		})
		return cmp.Or(err, refused)
	}
	var refused error
	err := p.run(ctx, func(conn *pgx.Conn) (answered bool, err error) {
		rows, err := conn.Query(ctx, st.SQL, st.Args...)
		if err != nil {
			return false, err
		}
		refused, err = forEach(rows, each)
		return true, err
	})
	return cmp.Or(err, refused)
}

func (p poolRunner) Append(ctx context.Context, st store.Statement) error {
	_, err := p.Exec(ctx, st)
	return err
}

// run runs one statement on a connection of the pool. If answered is true, an error does not mean that the statement
// was not applied: for example, a value of the answer cannot be read.
func (p poolRunner) run(ctx context.Context, statement func(*pgx.Conn) (answered bool, err error)) error {
	held, err := p.s.pool.Acquire(ctx)
	if err != nil {
		return down(err)
	}
	defer held.Release()
	conn := held.Conn()
	answered, err := statement(conn)
	switch {
	case err == nil && ctx.Err() != nil: // a cancel request may have ended the wait for the standby: see results
		return &store.Error{Kind: store.KindLost, Err: ctx.Err()}
	case err == nil:
		return nil
	}
	if refusedByStandby(ctx, conn, err) {
		return down(pgsql.ErrRecovery)
	}
	pe := serverError(err)
	if known, done := statementError(err, pe); done {
		return known
	}
	kind := store.KindLost
	switch {
	case pe == nil && !conn.IsClosed() && !answered: // if an answer were lost, the connection would be closed
		if kind = store.KindOther; ctx.Err() != nil {
			kind = store.KindUnavailable
		}
	case pe == nil || fatal(pe):
	default:
		kind = pgsql.Classify(pe.Code)
	}
	return &store.Error{Kind: kind, Err: explained(err)}
}

// statementError classifies the error of a statement, if the error means the same in every transaction.
func statementError(err error, pe *pgconn.PgError) (_ error, known bool) {
	switch {
	case pe == nil:
		var e *store.Error
		return err, errors.As(err, &e)
	case pgsql.WrongRows(pe.Code, pe.Message):
		return &store.Error{Kind: store.KindOther, Err: fmt.Errorf("%w: %w", store.ErrRows, err)}, true
	case pe.Code == pgsql.UniqueViolation:
		return &store.Error{Kind: store.KindOther, Err: fmt.Errorf("%w: %w", sqlplane.ErrDuplicate, err)}, true
	case pe.Code == pgsql.UndefinedTable:
		return &store.Error{Kind: store.KindUnavailable, Err: notMigrated(err)}, true
	}
	return err, false
}

// affected returns how many rows st has affected.
func affected(st store.Statement, tag pgconn.CommandTag) int64 {
	if st.Rows > 0 { // the server has checked this number: see counted
		return int64(st.Rows)
	}
	return tag.RowsAffected()
}

// forEach calls each for every row. The result refused is the error of each; err is the error of the rows.
func forEach(rows pgx.Rows, each func(sqlplane.Row) error) (refused, err error) {
	defer rows.Close() // also after a panic of each
	for rows.Next() {
		if err := each(rows); err != nil {
			return err, nil
		}
	}
	return nil, rows.Err()
}
