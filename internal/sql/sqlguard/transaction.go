package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
)

// transaction is one open transaction of a connection.
type transaction struct {
	conn  *conn
	base  driver.Tx       // nil if the guard sent BEGIN itself
	txn   *Txn            // nil while it is not guarded
	ctx   context.Context //nolint:containedctx // driver.Tx passes no context to Commit and Rollback
	group GroupTx         // nil if it has a COMMIT of its own
	done  bool

	pending []string // the statements that begin it, until its first statement

	isolation sql.IsolationLevel // that was asked for
}

// Begin begins a transaction for callers that know no context.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx begins a transaction, guarded if the context carries a Txn.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	t := txnOf(ctx)
	if c.guarded() != nil || t != nil && c.tx != nil {
		return nil, errNested // PostgreSQL would only warn, and both would share one fate
	}
	if t == nil {
		base, err := c.base.BeginTx(ctx, opts)
		if err != nil {
			return nil, err
		}
		c.tx = &transaction{conn: c, base: base, ctx: ctx, isolation: sql.IsolationLevel(opts.Isolation)}
		return c.tx, nil
	}
	if err := t.claim(); err != nil {
		return nil, err
	}
	base, pending, err := c.beginGuarded(ctx, opts)
	if err != nil {
		t.release() // database/sql may try again on another connection
		return nil, err
	}
	t.isolation = sql.IsolationLevel(opts.Isolation)
	c.tx = &transaction{conn: c, base: base, txn: t, ctx: ctx, group: groupTxOf(ctx), isolation: t.isolation, pending: pending}
	return c.tx, nil
}

// beginGuarded returns no driver.Tx if it has sent BEGIN itself, or if the pending statements are to be sent later.
func (c *conn) beginGuarded(ctx context.Context, opts driver.TxOptions) (base driver.Tx, pending []string, err error) {
	if c.dialect == MySQL {
		statements, err := beginMySQL(opts)
		if err != nil || c.takesSeveral() {
			return nil, slices.Concat(txnOf(ctx).opening, statements), err
		}
		if err = c.series(ctx, statements...); err != nil {
			c.abandon(ctx) // the first of them may have succeeded
		}
		return nil, nil, err
	}
	if p := groupTxOf(ctx); p != nil {
		if begun, err := p.Begin(ctx, Session{c}); begun || err != nil {
			return nil, nil, err
		}
		ctx = Own(ctx)
	}
	text, err := c.dialect.begins(opts)
	if err != nil {
		return nil, nil, err
	}
	if text == "" {
		base, err = c.base.BeginTx(ctx, opts)
		return base, nil, err
	}
	err = c.run(ctx, text)
	if err != nil && !answered(c.dialect, err) {
		// The caller gave up, or the connection broke, but the server may have run BEGIN.
		c.abandon(ctx)
	}
	return nil, nil, err
}

// join arms the guard for a transaction that was begun without it, after making
// sure that the transaction still exists: if a failed statement or a raw
// COMMIT has ended it, later statements would run in autocommit.
func (tx *transaction) join(ctx context.Context, t *Txn) error {
	if err := t.claim(); err != nil {
		return err
	}
	if err := tx.alive(ctx); err != nil {
		t.release()
		return fmt.Errorf("once: once.Join cannot use the transaction of the caller: %w", err)
	}
	tx.txn, t.isolation = t, tx.isolation
	return nil
}

func (tx *transaction) alive(ctx context.Context) error {
	c := tx.conn
	switch c.dialect {
	case SQLite:
		err := c.run(ctx, "BEGIN") // inside a transaction it only returns an error that says so
		switch {
		case err == nil:
			c.abandon(ctx)
			return ErrEnded
		case nested(err):
			return nil
		default:
			return err
		}
	case PostgreSQL:
		return marked(c.dialect, c.run(ctx, "SAVEPOINT once_join; RELEASE SAVEPOINT once_join"))
	default: // a savepoint outside a transaction is forgotten at once
		return marked(c.dialect, c.series(ctx, setMark, releaseMark))
	}
}

// abandon rolls back a transaction that may be open, and gives the connection up
// if it cannot.
func (c *conn) abandon(ctx context.Context) {
	ctx, cancel := c.dialect.tail(ctx)
	defer cancel()
	if err := c.run(ctx, "ROLLBACK"); err != nil && !endedUnderneath(c.dialect, err) {
		c.broken = true
	}
}

// Commit commits the transaction if all its statements succeeded, and else
// rolls it back.
func (tx *transaction) Commit() error {
	if !tx.end() {
		return sql.ErrTxDone
	}
	defer tx.endInGroup()
	defer tx.doAfter()
	t := tx.txn
	if t == nil {
		return tx.base.Commit()
	}
	if f := t.failure.Load(); f != nil {
		tx.clear()
		return &RefusedError{Refused: "COMMIT", First: f.first}
	}
	if t.commitForbidden.Load() {
		// The handler commits, and the record of the operation would be missing.
		tx.clear()
		return ErrCommitForbidden
	}
	if err := t.watch.Load().Finish(); err != nil {
		tx.clear()
		return err
	}
	if err := tx.commit(); err != nil {
		failed := newCommitError(tx.conn.dialect, err)
		if tx.group != nil { // the COMMIT for all members is yet to come
			failed = &CommitError{Err: err}
		}
		t.fatal = t.fatal || endsTransaction(err)
		tx.clear()
		if failed.InDoubt && !errors.Is(failed, ErrEnded) {
			tx.conn.broken = true // its state is unknown
		}
		return failed
	}
	return nil
}

func (tx *transaction) commit() error {
	c := tx.conn
	ctx, cancel := c.dialect.tail(tx.ctx)
	defer cancel()
	switch {
	case tx.group != nil:
		return tx.group.Commit(Session{c})
	case tx.base == nil && c.dialect == MySQL:
		return tx.commitMySQL(ctx)
	case tx.base == nil:
		if err := c.run(ctx, c.dialect.commits()); err != nil {
			return err
		}
		// If ctx ended in between, the server may have been asked to stop waiting for its
		// standby, and then answers as if it had not had to wait.
		return ctx.Err()
	case c.dialect == MySQL && tx.hasMark():
		if err := c.run(ctx, releaseMark); err != nil {
			return err
		}
	case c.dialect == PostgreSQL:
		if err := c.run(ctx, stillOpen); err != nil {
			return err
		}
	}
	return tx.base.Commit()
}

// hasMark reports whether the mark has been set.
func (tx *transaction) hasMark() bool { return tx.txn.find(mark) >= 0 }

// Rollback rolls the transaction back.
func (tx *transaction) Rollback() error {
	if !tx.end() {
		return sql.ErrTxDone
	}
	defer tx.endInGroup()
	defer tx.doAfter()
	c := tx.conn
	if tx.txn == nil {
		err := tx.base.Rollback()
		if tx.ctx.Err() != nil && (c.resetter == nil || c.validator == nil) {
			// After the end of a context, database/sql keeps only connections that can
			// be reset and validated. The guard's always can, so the guard drops it if the driver's cannot.
			c.broken = true
		}
		return err
	}
	err := tx.rollback()
	switch {
	case err == nil && tx.base != nil: // the owner of any other transaction calls Incomplete itself
		return tx.txn.Incomplete()
	case err == nil:
		return nil
	case endedUnderneath(c.dialect, err) && tx.txn.rolledBack(c.dialect):
		return nil // by the failed statement, already
	case endedUnderneath(c.dialect, err):
		return fmt.Errorf("once: ROLLBACK had no effect: %w: %w", ErrEnded, err)
	default:
		c.broken = true
		return err
	}
}

// clear rolls back after COMMIT was refused or failed.
func (tx *transaction) clear() {
	if err := tx.rollback(); err != nil && !endedUnderneath(tx.conn.dialect, err) {
		tx.conn.broken = true
	}
}

func (tx *transaction) rollback() error {
	c, t := tx.conn, tx.txn
	switch {
	case tx.base != nil && (c.dialect != MySQL || len(t.records()) == 0):
		return tx.base.Rollback()
	case tx.group != nil && tx.group.Rollback(Session{c}):
		return nil
	}
	ctx, cancel := c.dialect.tail(tx.ctx)
	defer cancel()
	if c.dialect != MySQL {
		return c.run(ctx, "ROLLBACK")
	}
	c.noteRollback(ctx, t)
	incomplete, err := tx.undoMySQL(ctx)
	if err != nil && endedUnderneath(c.dialect, err) {
		again := c.run(ctx, "ROLLBACK") // of another one, begun by the same hand, or after a COMMIT that was refused
		incomplete = again == nil && c.warned(ctx) && !c.onlyTemporary(ctx, t)
		err = errors.Join(err, again)
	}
	if incomplete || t.Incomplete() != nil {
		c.record(ctx, t)
	}
	return err
}

// end detaches the transaction from its connection. It reports false if it was
// ended before: a second COMMIT or ROLLBACK would end the transaction of the next
// user of the connection.
func (tx *transaction) end() bool {
	if tx.done {
		return false
	}
	tx.done = true
	if tx.conn.tx == tx {
		tx.conn.tx = nil
	}
	if tx.txn != nil {
		tx.txn.phase.Store(over)
	}
	return true
}

// endInGroup reports to the group that COMMIT or ROLLBACK has ended.
func (tx *transaction) endInGroup() {
	if tx.group != nil {
		tx.group.Ended()
	}
}
