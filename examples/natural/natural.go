// Package natural has writes that are safe to repeat without a key. Each file holds one of them, to
// be copied: upsert.go, compare.go, token.go, offset.go. docs/natural.md says what they give, and
// when a key is needed. put.go is an HTTP handler, pgx.go has an offset with pgx.
package natural

import (
	"context"
	"database/sql"

	"github.com/oncelib/once/store/sqlplane"
)

// DB is a [sql.DB] or a [sql.Tx].
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// statement is written twice. A copy needs the text of its own database only.
type statement struct {
	postgres string // and SQLite
	mysql    string // and MariaDB
}

func (s statement) on(d sqlplane.Dialect) string {
	if d == sqlplane.MySQL {
		return s.mysql
	}
	return s.postgres
}

// isChanged reports whether a statement has changed its row.
func isChanged(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// inTx runs do in a transaction, which commits if do succeeds.
func inTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
