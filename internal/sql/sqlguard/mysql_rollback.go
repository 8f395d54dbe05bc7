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

// Incomplete returns [ErrIncomplete] if the transaction was rolled back, but its writes to tables of MySQL without transactions
// remain.
func (t *Txn) Incomplete() error {
	if err := t.real().incomplete.Load(); err != nil {
		return *err
	}
	return nil
}

// IfIncomplete sets a statement that runs in a separate transaction after an incomplete ROLLBACK. It records that writes remain.
// Only for MySQL.
func (t *Txn) IfIncomplete(statement string) {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	t.ifIncomplete = append(t.ifIncomplete, statement)
}

// DropIfIncomplete reverts [Txn.IfIncomplete] for the same statement.
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

// noteRollback finds out whether a failed statement has made the server roll back incompletely. The next statement would delete
// the warning.
func (c *conn) noteRollback(ctx context.Context, t *Txn) {
	if c.dialect != MySQL || !t.fatal || t.noted {
		return
	}
	// Once only: the statement that asks for warnings deletes them.
	t.noted = true
	if c.warned(ctx) && !c.onlyTemporary(ctx, t) {
		t.incomplete.Store(&ErrIncomplete)
	}
}

// record stores that the rollback of the transaction of t was incomplete.
func (c *conn) record(ctx context.Context, t *Txn) {
	err := ErrIncomplete
	// The rollback has ended, so each statement is a separate transaction.
	for _, statement := range t.records() {
		if failed := c.run(ctx, statement); failed != nil {
			err = errors.Join(err, fmt.Errorf("the incomplete rollback could not be recorded, so a retry may execute the operation again: %w", failed))
		}
	}
	t.incomplete.Store(&err)
}

// mysqlIncomplete is the warning of an incomplete ROLLBACK.
const mysqlIncomplete = 1196

// HasNotTransactional is a query that reports whether tables exist that ROLLBACK does not roll back, except temporary tables.
const HasNotTransactional = "SELECT EXISTS (SELECT 1 FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine" +
	" WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND COALESCE(e.transactions, 'NO') <> 'YES'" +
	" AND t.table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys'))"

// HasTemporary reports whether the handler may have made a temporary table. MariaDB gives the same warning for a rolled back
// temporary table and for a written table without transactions.
func (t *Txn) HasTemporary() bool { return t.real().temporary.Load() }

// onlyTemporary reports whether an incomplete rollback of t can only concern temporary tables, which disappear with the
// connection.
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
	// The driver has begun this transaction, so the driver must end it.
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

// warned reports whether the last statement has rolled back incompletely. A deadlock rolls back by itself, and then has this
// warning.
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

// incompletely reads warnings. It reports whether one of them is about an incomplete rollback, and whether there are any.
func incompletely(warnings driver.Rows) (incomplete, some bool) {
	for row := make([]driver.Value, len(warnings.Columns())); warnings.Next(row) == nil; { // level, code, message
		some = true
		if len(row) > 1 {
			incomplete = incomplete || number(row[1]) == strconv.Itoa(mysqlIncomplete)
		}
	}
	return incomplete, some
}

// number returns an integer as text, because a driver may return it in either form.
func number(v driver.Value) string {
	if text, ok := v.([]byte); ok {
		return string(text)
	}
	return fmt.Sprint(v)
}
