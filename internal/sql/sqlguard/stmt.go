package sqlguard

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// stmt is a layer between database/sql and a prepared statement of a driver.
type stmt struct {
	base  baseStmt
	conn  *conn
	query string

	checker   driver.NamedValueChecker // the checker of the statement, otherwise of the connection; nil if neither has one
	converter driver.ColumnConverter   //nolint:staticcheck // deprecated only for authors of drivers

	cmd    command // valid if parsed
	parsed bool
}

var (
	_ driver.Stmt              = (*stmt)(nil)
	_ driver.StmtExecContext   = (*stmt)(nil)
	_ driver.StmtQueryContext  = (*stmt)(nil)
	_ driver.NamedValueChecker = (*stmt)(nil)
	_ driver.ColumnConverter   = (*stmt)(nil) //nolint:staticcheck // as above
)

func newStmt(c *conn, base baseStmt, query string) *stmt {
	s := &stmt{base: base, conn: c, query: query}
	s.checker = c.checker
	if checker, ok := base.(driver.NamedValueChecker); ok {
		s.checker = checker
	}
	s.converter, _ = base.(driver.ColumnConverter) //nolint:staticcheck // as above
	return s
}

// begin admits one execution, and returns its Txn, if it has one.
func (s *stmt) begin(ctx context.Context, args []driver.NamedValue) (*Txn, error) {
	t, err := s.conn.enter(ctx, s.query)
	if t == nil || err != nil {
		return nil, err
	}
	if !s.parsed {
		s.cmd, s.parsed = s.conn.dialect.parse(s.query), true
	}
	if err := s.conn.admit(ctx, t, s.cmd, s.query); err != nil {
		return nil, err
	}
	// Without the guard, database/sql would return this error, and the handler could ignore it and commit.
	if want := s.base.NumInput(); want >= 0 && want != len(args) {
		err := fmt.Errorf("sql: expected %d arguments, got %d", want, len(args))
		t.fail(t.made, s.query, err)
		return nil, err
	}
	return t, nil
}

// ExecContext runs the statement, or refuses it.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	t, err := s.begin(ctx, args)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return s.base.ExecContext(ctx, args)
	}
	since := t.made
	ctx, k, err := s.conn.begin(ctx, t, s.query)
	if err != nil {
		return nil, err
	}
	var result driver.Result
	if err = s.conn.ready(ctx, t, s.cmd); err == nil {
		result, err = s.base.ExecContext(ctx, args)
	}
	err = k.end(err, false)
	t.settle(s.conn.dialect, s.cmd, s.query, since, err)
	return result, err
}

// QueryContext runs a statement that returns rows, or refuses it.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	t, err := s.begin(ctx, args)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return s.base.QueryContext(ctx, args)
	}
	since := t.made
	within, k, err := s.conn.begin(ctx, t, s.query)
	if err != nil {
		return nil, err
	}
	var result driver.Rows
	if err = s.conn.ready(ctx, t, s.cmd); err == nil {
		result, err = s.base.QueryContext(within, args)
	}
	err = k.end(err, true)
	t.settle(s.conn.dialect, s.cmd, s.query, since, err)
	if err != nil {
		return nil, err
	}
	return watch(ctx, result, t, k, s.query, since, nil), nil
}

// Exec runs the statement for callers without a context.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), numbered(args))
}

// Query runs the statement for callers without a context.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), numbered(args))
}

// NumInput returns the number of arguments. In a guarded transaction it returns -1 (unknown): database/sql would otherwise refuse a
// wrong number by itself, and the guard would not see the error.
func (s *stmt) NumInput() int {
	if s.conn.guarded() != nil {
		return -1
	}
	return s.base.NumInput()
}

// CheckNamedValue converts an argument.
func (s *stmt) CheckNamedValue(arg *driver.NamedValue) error {
	err := s.convert(arg)
	s.note(err)
	return err
}

func (s *stmt) convert(arg *driver.NamedValue) error {
	if s.checker != nil {
		if err := s.checker.CheckNamedValue(arg); err != driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
			return err
		}
	}
	if s.converter != nil {
		return driver.ErrSkip // database/sql now asks ColumnConverter
	}
	return convertDefault(arg)
}

// ColumnConverter returns the converter of the driver. In a guarded transaction the converter is wrapped, so that the guard sees
// its errors.
func (s *stmt) ColumnConverter(index int) driver.ValueConverter {
	if s.converter == nil {
		return driver.DefaultParameterConverter
	}
	if s.conn.guarded() == nil {
		return s.converter.ColumnConverter(index)
	}
	if want := s.base.NumInput(); want >= 0 && index >= want {
		return driver.DefaultParameterConverter // the argument is too much: begin returns this error
	}
	return watchedConverter{s, s.converter.ColumnConverter(index)}
}

type watchedConverter struct {
	stmt *stmt
	base driver.ValueConverter
}

func (w watchedConverter) ConvertValue(v any) (driver.Value, error) {
	value, err := w.base.ConvertValue(v)
	w.stmt.note(err)
	return value, err
}

// note records that an argument was rejected.
func (s *stmt) note(err error) {
	if t := s.conn.guarded(); t != nil && rejects(err) {
		t.fail(t.made, s.query, err)
	}
}

// Close closes the statement.
func (s *stmt) Close() error { return s.base.Close() }

func numbered(values []driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}
