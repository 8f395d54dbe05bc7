package sqlguard

import (
	"context"
	"database/sql/driver"
	"errors"
)

// The first drivers knew neither contexts nor named arguments. database/sql
// still serves them, so whatever stands in front of a driver must, too. These
// adapters give them today's shape, with the answers that database/sql gives.

var errNamed = errors.New("sql: driver does not support the use of Named Parameters")

func execerOf(base driver.Conn) driver.ExecerContext {
	switch e := base.(type) {
	case driver.ExecerContext:
		return e
	case driver.Execer: //nolint:staticcheck // deprecated for authors of drivers, not for their users
		return legacyConn{exec: e}
	default:
		return nil
	}
}

func queryerOf(base driver.Conn) driver.QueryerContext {
	switch q := base.(type) {
	case driver.QueryerContext:
		return q
	case driver.Queryer: //nolint:staticcheck // as above
		return legacyConn{query: q}
	default:
		return nil
	}
}

type legacyConn struct {
	exec  driver.Execer  //nolint:staticcheck // as above
	query driver.Queryer //nolint:staticcheck // as above
}

func (l legacyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return l.exec.Exec(query, values)
}

func (l legacyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return l.query.Query(query, values)
}

func stmtExecerOf(base driver.Stmt) driver.StmtExecContext {
	if e, ok := base.(driver.StmtExecContext); ok {
		return e
	}
	return legacyStmt{base}
}

func stmtQueryerOf(base driver.Stmt) driver.StmtQueryContext {
	if q, ok := base.(driver.StmtQueryContext); ok {
		return q
	}
	return legacyStmt{base}
}

type legacyStmt struct{ base driver.Stmt }

func (l legacyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return l.base.Exec(values) //nolint:staticcheck // as above
}

func (l legacyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return l.base.Query(values) //nolint:staticcheck // as above
}

func prepare(ctx context.Context, base driver.Conn, query string) (driver.Stmt, error) {
	if p, ok := base.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	stmt, err := base.Prepare(query)
	if err == nil && ctx.Err() != nil {
		_ = stmt.Close() // the reason to give up is the better answer
		return nil, ctx.Err()
	}
	return stmt, err
}

func begin(ctx context.Context, base driver.Conn, opts driver.TxOptions) (driver.Tx, error) {
	if b, ok := base.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, opts)
	}
	if opts.Isolation != 0 {
		return nil, errors.New("sql: driver does not support non-default isolation level")
	}
	if opts.ReadOnly {
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	tx, err := base.Begin() //nolint:staticcheck // as above
	if err == nil && ctx.Err() != nil {
		_ = tx.Rollback()
		return nil, ctx.Err()
	}
	return tx, err
}

// positional drops the names of arguments, and stops where the caller has given
// up: the driver could not notice.
func positional(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, errNamed
		}
		values[i] = arg.Value
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return values, nil
}
