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
	group GroupTx         // nil if the transaction has a separate COMMIT
	done  bool

	pending []string // the statements that begin the transaction, until its first statement

	isolation sql.IsolationLevel // the requested level
}

// Begin begins a transaction for callers without a context.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx begins a transaction, guarded if the context carries a Txn.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	t := txnOf(ctx)
	if c.guarded() != nil || t != nil && c.tx != nil {
		return nil, errNested // PostgreSQL would only warn, and both transactions would end together
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

// beginGuarded returns no driver.Tx if it has sent BEGIN itself, or if the pending statements are sent later.
func (c *conn) beginGuarded(ctx context.Context, opts driver.TxOptions) (base driver.Tx, pending []string, err error) {
	if c.dialect == MySQL {
		statements, err := beginMySQL(opts)
		if err != nil || c.takesSeveral() {
			return nil, slices.Concat(txnOf(ctx).opening, statements), err
		}
		if err = c.series(ctx, statements...); err != nil {
			c.abandon(ctx) // some of them may have succeeded
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
		// The caller has gone, or the connection broke, but the server may have run BEGIN.
		c.abandon(ctx)
	}
	return nil, nil, err
}

// join activates the guard for a transaction that was begun without it. First it makes sure that the transaction still exists:
// after a failed statement or a COMMIT without the guard, later statements would run in autocommit.
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
		err := c.run(ctx, "BEGIN") // inside a transaction, this only returns an error
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
	default: // outside a transaction, a savepoint is forgotten at once
		return marked(c.dialect, c.series(ctx, setMark, releaseMark))
	}
}

// abandon rolls back a transaction that may be open. If this fails, the connection is dropped.
func (c *conn) abandon(ctx context.Context) {
	ctx, cancel := c.dialect.tail(ctx)
	defer cancel()
	if err := c.run(ctx, "ROLLBACK"); err != nil && !endedUnderneath(c.dialect, err) {
		c.broken = true
	}
}

// Commit commits the transaction if all its statements have succeeded. Otherwise it rolls the transaction back.
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
		// If the handler could commit, the record of the operation would be missing.
		tx.clear()
		return ErrCommitForbidden
	}
	if err := t.watch.Load().Finish(); err != nil {
		tx.clear()
		return err
	}
	if err := tx.commit(); err != nil {
		failed := newCommitError(tx.conn.dialect, err)
		if tx.group != nil { // the COMMIT of the whole group comes later
			failed = &CommitError{Err: err}
		}
		t.fatal = t.fatal || endsTransaction(err)
		tx.clear()
		if failed.InDoubt && !errors.Is(failed, ErrEnded) {
			tx.conn.broken = true // its state is not known
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
		// If ctx has ended meanwhile, a cancel request may have ended the server's wait for its standby. Then the server answers as
		// if the standby had confirmed.
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
			// After the end of a context, database/sql keeps only connections that can be reset and validated. The connections of the
			// guard can always, so the guard drops the connection if the driver cannot.
			c.broken = true
		}
		return err
	}
	err := tx.rollback()
	switch {
	case err == nil && tx.base != nil: // the owner of any other transaction calls Incomplete by itself
		return tx.txn.Incomplete()
	case err == nil:
		return nil
	case endedUnderneath(c.dialect, err) && tx.txn.rolledBack(c.dialect):
		return nil // the failed statement has rolled back already
	case endedUnderneath(c.dialect, err):
		return fmt.Errorf("once: ROLLBACK had no effect: %w: %w", ErrEnded, err)
	default:
		c.broken = true
		return err
	}
}

// clear rolls back after COMMIT was refused or has failed.
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
		again := c.run(ctx, "ROLLBACK") // this ends another transaction, which was begun without the guard or stays open after a refused COMMIT
		incomplete = again == nil && c.warned(ctx) && !c.onlyTemporary(ctx, t)
		err = errors.Join(err, again)
	}
	if incomplete || t.Incomplete() != nil {
		c.record(ctx, t)
	}
	return err
}

// end detaches the transaction from its connection. It returns false if the transaction was ended before: a second COMMIT or
// ROLLBACK would end the transaction of the next user of the connection.
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

// endInGroup tells the group that COMMIT or ROLLBACK has ended.
func (tx *transaction) endInGroup() {
	if tx.group != nil {
		tx.group.Ended()
	}
}
