package sqlguard

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// ErrIncomplete is the error of [Txn.Incomplete].
var ErrIncomplete = errors.New("the transaction was rolled back, but its writes to tables without transactions (such as MyISAM tables) remain." +
	" Try: alter table ... engine = InnoDB, for the tables that once doctor lists")

// Incomplete returns [ErrIncomplete] if the transaction was rolled back, but its writes to tables
// of MySQL that are not transactional remain.
func (t *Txn) Incomplete() error {
	if err := t.real().incomplete.Load(); err != nil {
		return *err
	}
	return nil
}

// IfIncomplete sets a statement to run, in a transaction of its own, once a ROLLBACK has turned out to be
// incomplete: it records that writes remain. MySQL only.
func (t *Txn) IfIncomplete(statement string) {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	t.ifIncomplete = append(t.ifIncomplete, statement)
}

// DropIfIncomplete undoes [Txn.IfIncomplete] of the same statement.
func (t *Txn) DropIfIncomplete(statement string) {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	t.ifIncomplete = slices.DeleteFunc(t.ifIncomplete, func(s string) bool { return s == statement })
}

func (t *Txn) records() []string {
	t.ending.Lock()
	defer t.ending.Unlock()
	return slices.Clone(t.ifIncomplete)
}

// noteRollback notes whether a statement has failed by which the server has rolled back incompletely. The next statement
// would have it forgotten.
func (c *conn) noteRollback(ctx context.Context, t *Txn) {
	if c.dialect != MySQL || !t.fatal || t.noted {
		return
	}
	t.noted = true
	if c.warned(ctx) && !c.onlyTemporary(ctx, t) {
		t.incomplete.Store(&ErrIncomplete)
	}
}

// record notes that the transaction of t was rolled back incompletely, and records it.
func (c *conn) record(ctx context.Context, t *Txn) {
	err := ErrIncomplete
	// The rollback is over, so that each is a transaction of its own.
	for _, statement := range t.records() {
		if failed := c.run(ctx, statement); failed != nil {
			err = errors.Join(err, fmt.Errorf("the incomplete rollback could not be recorded, so a retry may execute the operation again: %w", failed))
		}
	}
	t.incomplete.Store(&err)
}

// mysqlIncomplete is the warning of an incomplete ROLLBACK.
const mysqlIncomplete = 1196

// HasNotTransactional is a query for whether tables exist that ROLLBACK does not roll back, temporary ones aside.
const HasNotTransactional = "SELECT EXISTS (SELECT 1 FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine" +
	" WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND COALESCE(e.transactions, 'NO') <> 'YES'" +
	" AND t.table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys'))"

// HasTemporary reports whether the handler may have made a temporary table. MariaDB gives the same
// warning when it rolls back one, and when a table that is not transactional was written.
func (t *Txn) HasTemporary() bool { return t.real().temporary.Load() }

// onlyTemporary reports whether an incomplete rollback of t can only be one of temporary tables, which are gone with
// the connection.
func (c *conn) onlyTemporary(ctx context.Context, t *Txn) bool {
	if !t.HasTemporary() || c.queryer == nil {
		return false
	}
	rows, err := c.queryer.QueryContext(ctx, HasNotTransactional, nil)
	if err != nil {
		return false
	}
	defer func() { _ = rows.Close() }()
	row := make([]driver.Value, len(rows.Columns()))
	return rows.Next(row) == nil && len(row) == 1 && number(row[0]) == "0"
}

// undoMySQL rolls back, and reports whether writes of the transaction remain.
func (tx *transaction) undoMySQL(ctx context.Context) (incomplete bool, err error) {
	c := tx.conn
	switch {
	case len(tx.pending) > 0: // nothing was sent
		if tx.pending = nil; len(tx.txn.opening) > 0 {
			tx.txn.unopened = true
			tx.txn.isDoneAfter()
		}
		return false, nil
	case tx.base != nil:
		err = tx.base.Rollback()
	case c.takesSeveral() && c.queryer != nil:
		return tx.rollbackPacket(ctx)
	default:
		if tx.hasMark() {
			err = c.run(ctx, releaseMark)
		}
		if err == nil {
			err = c.run(ctx, "ROLLBACK")
		}
	}
	return err == nil && c.warned(ctx) && !c.onlyTemporary(ctx, tx.txn), err
}

// warned reports whether the last statement has rolled back incompletely: a deadlock itself rolls
// back, and then has this warning.
func (c *conn) warned(ctx context.Context) bool {
	if c.queryer == nil {
		return false
	}
	warnings, err := c.queryer.QueryContext(ctx, "SHOW WARNINGS", nil)
	if err != nil {
		return false
	}
	defer func() { _ = warnings.Close() }()
	incomplete, _ := incompletely(warnings)
	return incomplete
}

// incompletely reads warnings: whether there are any, and whether one is of an incomplete rollback.
func incompletely(warnings driver.Rows) (incomplete, some bool) {
	for row := make([]driver.Value, len(warnings.Columns())); warnings.Next(row) == nil; { // level, code, message
		some = true
		if len(row) > 1 {
			incomplete = incomplete || number(row[1]) == strconv.Itoa(mysqlIncomplete)
		}
	}
	return incomplete, some
}

// number is an integer that a driver may return as text.
func number(v driver.Value) string {
	if text, ok := v.([]byte); ok {
		return string(text)
	}
	return fmt.Sprint(v)
}
