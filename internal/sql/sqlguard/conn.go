package sqlguard

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// conn is a layer between database/sql and a connection of the driver. It has every optional interface, and answers neutrally if
// the driver does not have one.
type conn struct {
	base    baseConn
	dialect Dialect
	from    *connector // the connector that has made it

	// The abilities of base; nil if it does not have them.
	execer    driver.ExecerContext
	queryer   driver.QueryerContext
	checker   driver.NamedValueChecker
	resetter  driver.SessionResetter
	validator driver.Validator

	tx         *transaction // the open transaction, guarded or not
	broken     bool         // the pool must drop this connection
	unquotable bool         // see checkCharset
	prepared   preparedStmts
}

var (
	_ driver.Conn               = (*conn)(nil)
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
)

func newConn(base baseConn, from *connector) *conn {
	c := &conn{base: base, dialect: from.dialect, from: from}
	c.execer, _ = base.(driver.ExecerContext)
	c.queryer, _ = base.(driver.QueryerContext)
	c.checker, _ = base.(driver.NamedValueChecker)
	c.resetter, _ = base.(driver.SessionResetter)
	c.validator, _ = base.(driver.Validator)
	return c
}

// guarded returns the Txn of the open transaction, or nil if the transaction has none.
func (c *conn) guarded() *Txn {
	if c.tx == nil {
		return nil
	}
	return c.tx.txn
}

// enter returns the Txn for a statement with this context, or nil if the statement is not guarded. A transaction that was begun
// without a Txn gets its Txn here.
func (c *conn) enter(ctx context.Context, query string) (*Txn, error) {
	asked, current := txnOf(ctx), c.guarded()
	switch {
	case asked == current, asked == nil:
		return current, nil
	// A Join uses the guard of the transaction that it joins.
	case current != nil && joins(ctx) && asked.phase.Load() == unused:
		asked.view.Store(current)
		return current, nil
	case current != nil:
		return nil, current.refuse(query, errForeign)
	// A statement that asks for a guard must not run outside a transaction: it would commit alone.
	case c.tx == nil:
		return nil, errOutside
	default:
		return asked, c.tx.join(ctx, asked)
	}
}

// admit decides whether a statement of the open transaction may reach the database.
func (c *conn) admit(ctx context.Context, t *Txn, cmd command, query string) error {
	// This savepoint belongs to the group, and a handler that used it would undo the work of other members.
	if c.tx != nil && c.tx.group != nil && cmd.name == GroupSavepoint {
		return t.refuse(query, errSavepoint)
	}
	// First, because the statement itself would delete the warning of the server.
	c.noteRollback(ctx, t)
	if err := t.admit(cmd, query); err != nil {
		return err
	}
	if c.releasesClaims(t, query) {
		return t.refuse(query, errAllLocks)
	}
	c.noteSession(ctx, t, query)
	return nil
}

// ExecContext runs a statement, or refuses it.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if query == visitText {
		if visited, err := c.visited(ctx); visited {
			return driver.ResultNoRows, err
		}
	}
	if c.execer == nil {
		return nil, driver.ErrSkip
	}
	t, err := c.enter(ctx, query)
	if err != nil {
		return nil, err
	}
	if t == nil {
		if c.prepares(query, args) {
			return nil, driver.ErrSkip
		}
		if err := c.oneStatement(ctx, t, query); err != nil {
			return nil, err
		}
		return c.execer.ExecContext(ctx, query, args)
	}
	cmd := c.dialect.parse(query)
	if err := c.admit(ctx, t, cmd, query); err != nil {
		return nil, err
	}
	// An error may be undone by a rollback to a savepoint, so its place among the savepoints is kept.
	since := t.made
	ctx, k, err := c.begin(ctx, t, query)
	if err != nil {
		return nil, err
	}
	var result driver.Result
	if err = c.sendable(ctx, t, cmd, query, args); err == nil {
		result, err = c.exec(ctx, c.opening(query), args)
		c.opened(err)
	}
	if err = k.end(err, false); err == driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
		// database/sql now prepares the text and executes it again, so this call must not count.
		t.skipped()
		return nil, err
	}
	t.settle(c.dialect, cmd, query, since, err)
	return result, err
}

// QueryContext runs a statement that returns rows, or refuses it.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.queryer == nil {
		return nil, driver.ErrSkip
	}
	t, err := c.enter(ctx, query)
	if err != nil {
		return nil, err
	}
	if t == nil {
		if c.prepares(query, args) {
			return nil, driver.ErrSkip
		}
		if err := c.oneStatement(ctx, t, query); err != nil {
			return nil, err
		}
		result, s, err := c.rows(ctx, query, args)
		if err != nil || s == nil {
			return result, err
		}
		return watch(ctx, result, nil, call{}, query, 0, s), nil
	}
	cmd := c.dialect.parse(query)
	if err := c.admit(ctx, t, cmd, query); err != nil {
		return nil, err
	}
	since := t.made
	within, k, err := c.begin(ctx, t, query)
	if err != nil {
		return nil, err
	}
	var result driver.Rows
	var s *preparedStmt
	if err = c.sendable(ctx, t, cmd, query, args); err == nil {
		result, s, err = c.rows(within, c.opening(query), args)
		c.opened(err)
	}
	if err = k.end(err, true); err == driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
		t.skipped()
		return nil, err
	}
	t.settle(c.dialect, cmd, query, since, err)
	if err != nil {
		return nil, err
	}
	return watch(ctx, result, t, k, query, since, s), nil
}

// Prepare prepares a statement.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext prepares a statement. The statement is always wrapped, because it may later be executed in a guarded
// transaction of this connection.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var t *Txn
	if c.tx != nil { // outside a transaction, preparing is harmless, whatever ctx contains
		var err error
		if t, err = c.enter(ctx, query); err != nil {
			return nil, err
		}
	}
	if t != nil {
		if err := c.admit(ctx, t, c.dialect.parse(query), query); err != nil {
			return nil, err
		}
	}
	var k call
	if t != nil {
		var err error
		if k, err = t.enter(query); err != nil {
			return nil, err
		}
	}
	err := c.open(ctx)
	var base baseStmt
	if err == nil {
		base, err = prepare(ctx, c.base, query)
	}
	k.watch.Leave()
	if err != nil {
		if t != nil {
			t.fail(t.made, query, err)
		}
		return nil, err
	}
	return newStmt(c, base, query), nil
}

// CheckNamedValue converts an argument of a statement that is run without being
// prepared.
func (c *conn) CheckNamedValue(arg *driver.NamedValue) error {
	err := c.convert(arg)
	if t := c.guarded(); t != nil && rejects(err) {
		// database/sql returns this error to the handler, which could ignore it and commit.
		t.fail(t.made, "", err)
	}
	return err
}

func (c *conn) convert(arg *driver.NamedValue) error {
	if c.execer == nil && c.queryer == nil { // the statement will be prepared, and its arguments are then converted for it
		return nil
	}
	if c.checker != nil {
		if err := c.checker.CheckNamedValue(arg); err != driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
			return err
		}
	}
	return convertDefault(arg)
}

// convertDefault converts an argument in the same way as database/sql for a driver without a converter. The guard does this
// itself, so that it sees the error.
func convertDefault(arg *driver.NamedValue) (err error) {
	arg.Value, err = driver.DefaultParameterConverter.ConvertValue(arg.Value)
	return err
}

// rejects reports whether the error of an argument means that its statement will not run.
func rejects(err error) bool {
	return err != nil && err != driver.ErrSkip && err != driver.ErrRemoveArgument //nolint:errorlint // as above
}

// Ping asks the driver, if it can be asked.
func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.base.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// ResetSession is called before the pool hands out a used connection again.
func (c *conn) ResetSession(ctx context.Context) error {
	// A guarded transaction was not ended, so the pool must not reuse the connection.
	if c.broken || c.guarded() != nil {
		return driver.ErrBadConn
	}
	c.tx = nil // the owner has left the transaction open: the driver decides about it
	if c.resetter != nil {
		return c.resetter.ResetSession(ctx)
	}
	return nil
}

// IsValid reports whether the pool may keep the connection.
func (c *conn) IsValid() bool {
	if c.broken || c.guarded() != nil {
		return false
	}
	return c.validator == nil || c.validator.IsValid()
}

// Close closes the connection.
func (c *conn) Close() error {
	c.prepared.drop()
	return c.base.Close()
}

// run executes a statement of the guard itself, which the Txn does not see.
func (c *conn) run(ctx context.Context, query string) error {
	_, err := c.runs(ctx, query)
	return err
}

// runs does the same as run, and returns the result.
func (c *conn) runs(ctx context.Context, query string) (driver.Result, error) {
	if c.execer != nil {
		r, err := c.exec(ctx, query, nil)
		// The driver wants the statement prepared.
		if err != driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
			return r, err
		}
	}
	base, err := prepare(ctx, c.base, query)
	if err != nil {
		return nil, err
	}
	r, err := base.ExecContext(ctx, nil)
	if closeErr := base.Close(); err == nil && closeErr != nil {
		return nil, fmt.Errorf("close %q: %w", query, closeErr)
	}
	return r, err
}
