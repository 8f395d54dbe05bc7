package oncetest

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"reflect"
)

// driverTx is a transaction of a [driverConn].
type driverTx struct {
	driver.Tx

	conn *driverConn
}

// Commit implements [driver.Tx].
func (t driverTx) Commit() error { return t.conn.write(t.Tx.Commit) }

// Rollback implements [driver.Tx].
func (t driverTx) Rollback() error { return t.conn.write(t.Tx.Rollback) }

// driverStmt is a prepared statement of a [driverConn].
type driverStmt struct {
	driver.Stmt

	conn *driverConn
}

// ExecContext implements [driver.StmtExecContext].
func (s *driverStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	e, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, fmt.Errorf("oncetest: a statement of %T takes no contexts", s.Stmt)
	}
	err = s.conn.write(func() error {
		result, err = e.ExecContext(ctx, args)
		return err
	})
	return result, err
}

// QueryContext implements [driver.StmtQueryContext].
func (s *driverStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, fmt.Errorf("oncetest: a statement of %T takes no contexts", s.Stmt)
	}
	return s.conn.query(func() (driver.Rows, error) { return q.QueryContext(ctx, args) })
}

// CheckNamedValue implements [driver.NamedValueChecker].
func (s *driverStmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

// Close implements [driver.Stmt].
func (s *driverStmt) Close() error { return s.conn.closeOne(s.Stmt) }

// driverRows is a result of a [driverConn].
type driverRows struct {
	driver.Rows

	conn *driverConn
}

// Next implements [driver.Rows].
func (r *driverRows) Next(dest []driver.Value) error {
	return r.conn.read(func() error { return r.Rows.Next(dest) })
}

// Close implements [driver.Rows].
func (r *driverRows) Close() error { return r.conn.closeOne(r.Rows) }

// HasNextResultSet implements [driver.RowsNextResultSet].
func (r *driverRows) HasNextResultSet() bool {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

// NextResultSet implements [driver.RowsNextResultSet].
func (r *driverRows) NextResultSet() error {
	if n, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return r.conn.read(n.NextResultSet)
	}
	return io.EOF
}

// ColumnTypeScanType implements [driver.RowsColumnTypeScanType].
func (r *driverRows) ColumnTypeScanType(index int) reflect.Type {
	if c, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return c.ColumnTypeScanType(index)
	}
	return reflect.TypeFor[any]()
}

// ColumnTypeDatabaseTypeName implements [driver.RowsColumnTypeDatabaseTypeName].
func (r *driverRows) ColumnTypeDatabaseTypeName(index int) string {
	if c, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return c.ColumnTypeDatabaseTypeName(index)
	}
	return ""
}
