package sqlguard

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
)

// ErrIncomplete says what [Txn.Incomplete] reports.
var ErrIncomplete = errors.New("the transaction was rolled back, but not what it has written to tables that are not transactional, such as MyISAM's." +
	" Try: alter table ... engine = InnoDB; once doctor lists them")

// Incomplete reports whether the transaction was rolled back, and what it has written to tables
// of MySQL that are not transactional stands all the same.
func (t *Txn) Incomplete() bool { return t.real().incomplete.Load() }

// mysqlIncomplete is the warning by which ROLLBACK says so.
const mysqlIncomplete = 1196

// undoing has the compound statement that rolls back fail with the warning's number.
var undoing = fmt.Sprintf("DECLARE EXIT HANDLER FOR %[1]d SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %[1]d", mysqlIncomplete)

// undoMySQL rolls back, and reports whether something of the transaction stands.
func (tx *transaction) undoMySQL(ctx context.Context) (incomplete bool, err error) {
	c := tx.conn
	if c.single.Load() {
		if tx.hasMark() {
			err = c.run(ctx, releaseMark)
		}
		if err == nil {
			err = c.run(ctx, "ROLLBACK")
		}
		return err == nil && c.warned(ctx), err
	}
	err = c.run(ctx, compound(undoing, releaseMark, "ROLLBACK"))
	switch code, _ := MySQLCode(err); code {
	case mysqlIncomplete:
		return true, nil
	case mysqlSyntax:
		c.single.Store(true)
		return tx.undoMySQL(ctx)
	}
	return false, err
}

// warned reports whether the last statement has rolled back incompletely: a deadlock rolls
// back by itself, and then says so.
func (c *conn) warned(ctx context.Context) bool {
	if c.queryer == nil {
		return false
	}
	warnings, err := c.queryer.QueryContext(ctx, "SHOW WARNINGS", nil)
	if err != nil {
		return false
	}
	defer func() { _ = warnings.Close() }()
	found := false
	for row := make([]driver.Value, len(warnings.Columns())); warnings.Next(row) == nil; { // level, code, message
		if len(row) > 1 {
			found = found || number(row[1]) == strconv.Itoa(mysqlIncomplete)
		}
	}
	return found
}

// number is an integer that a driver may return as text.
func number(v driver.Value) string {
	if text, ok := v.([]byte); ok {
		return string(text)
	}
	return fmt.Sprint(v)
}
