package sqlguard

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"
)

// rows watches the result of a statement in a guarded transaction. Servers send rows while they compute them, so an error may
// come after many rows.
type rows struct {
	driver.Rows

	ctx      context.Context //nolint:containedctx // the context of the statement; see Close
	txn      *Txn            // nil: only prepared is used
	call     call            // the call that has begun the statement
	query    string
	since    int
	ended    bool          // the last row was read, or an error has occurred
	prepared *preparedStmt // nil: the statement does not stay prepared
}

var (
	_ driver.Rows                           = (*rows)(nil)
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
)

func watch(ctx context.Context, base driver.Rows, t *Txn, k call, query string, since int, s *preparedStmt) driver.Rows {
	return expose(&rows{Rows: base, ctx: ctx, txn: t, call: k, query: query, since: since, prepared: s})
}

func (r *rows) note(err error) error {
	r.ended = err != nil
	if err != nil && err != io.EOF && r.txn != nil { //nolint:errorlint // database/sql compares it in the same way
		r.txn.fail(r.since, r.query, err)
	}
	return err
}

// Next reads the next row.
func (r *rows) Next(dest []driver.Value) error {
	return r.note(r.call.again(false, func() error { return r.Rows.Next(dest) }))
}

// Close closes the result. If the statement's context has ended before the last row was read, database/sql closes the result by
// itself. It returns an error to its user, but not to the driver. This counts as an error of the statement, too.
func (r *rows) Close() error {
	if r.prepared != nil {
		r.prepared.open = false
	}
	cut := !r.ended
	err := r.note(r.call.again(true, r.Rows.Close))
	// database/sql does not tell the driver why it closes a result early.
	if err == nil && cut {
		_ = r.note(r.ctx.Err())
	}
	return err
}

// HasNextResultSet reports whether another result follows.
func (r *rows) HasNextResultSet() bool {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

// NextResultSet moves to the next result.
func (r *rows) NextResultSet() error {
	if n, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return r.note(r.call.again(false, n.NextResultSet))
	}
	return io.EOF
}

// ColumnTypeScanType returns a Go type that can hold the column.
func (r *rows) ColumnTypeScanType(index int) reflect.Type {
	if c, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return c.ColumnTypeScanType(index)
	}
	return reflect.TypeFor[any]()
}

// ColumnTypeDatabaseTypeName returns the database's name for the column's type.
func (r *rows) ColumnTypeDatabaseTypeName(index int) string {
	if c, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return c.ColumnTypeDatabaseTypeName(index)
	}
	return ""
}

// ColumnTypeLength returns the length of a column of variable length.
func (r *rows) ColumnTypeLength(index int) (length int64, ok bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return c.ColumnTypeLength(index)
	}
	return 0, false
}

// ColumnTypeNullable reports whether the column may be null.
func (r *rows) ColumnTypeNullable(index int) (nullable, ok bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return c.ColumnTypeNullable(index)
	}
	return false, false
}

// ColumnTypePrecisionScale returns the precision and scale of a decimal column.
func (r *rows) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return c.ColumnTypePrecisionScale(index)
	}
	return 0, 0, false
}
