package payments

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
)

// queries is the part of a transaction that the business logic uses. Its SQL is for SQLite and PostgreSQL: it has $1 parameters, and updates
// with a condition in place of "select for update". For MySQL it is translated.
type queries interface {
	// exec returns how many rows were affected.
	exec(ctx context.Context, sql string, args ...any) (int64, error)

	// each calls row for every row that sql returns.
	each(ctx context.Context, row func(scan func(into ...any) error) error, sql string, args ...any) error
}

// one reads the only row that sql returns, and reports whether there was one.
func one(ctx context.Context, tx queries, into []any, sql string, args ...any) (found bool, err error) {
	err = tx.each(ctx, func(scan func(...any) error) error {
		found = true
		return scan(into...)
	}, sql, args...)
	return found, err
}

var (
	_ queries = sqlTx{}
	_ queries = pgxTx{}
	_ queries = mysqlTx{}
	_ queries = batch{}
)

// batch collects the writes of an action that reads nothing. They are sent in one round trip, together with the key, the answer and COMMIT.
type batch struct{ *once.Batch }

func (b batch) exec(_ context.Context, sql string, args ...any) (int64, error) {
	b.Exec(sql, args...)
	return -1, nil // the number of rows is known only after the batch was sent
}

func (b batch) each(context.Context, func(func(...any) error) error, string, ...any) error {
	return errors.New("an SQL statement that returns rows is in a batch of statements that only write")
}

type sqlTx struct{ *sql.Tx }

func (t sqlTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	res, err := t.ExecContext(ctx, sql, args...) //nolint:gosec // a constant of this package
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t sqlTx) each(ctx context.Context, row func(func(...any) error) error, sql string, args ...any) (err error) {
	rows, err := t.QueryContext(ctx, sql, args...) //nolint:gosec // a constant of this package
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

type pgxTx struct{ pgx.Tx }

func (t pgxTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (t pgxTx) each(ctx context.Context, row func(func(...any) error) error, sql string, args ...any) error {
	rows, err := t.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
