package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

var _ store.AttemptLog = (*Store)(nil)

// sweepAttempts are the texts that delete attempts: keep in microseconds, limit.
var sweepAttempts = map[store.Dialect]string{
	store.SQLite:     dialect.Text(store.SQLite, `delete from once_attempt where (key_hash, id) in (select key_hash, id from once_attempt where at < AGO(?) order by at limit ?)`),
	store.PostgreSQL: pgsql.SweepAttempts,
	store.MySQL:      dialect.Text(store.MySQL, `delete from once_attempt where at < AGO(?) order by at limit ?`),
}

// maxRows of a statement. SQLite's driver takes the longer for an argument the more
// there are, and a server's cache holds that many texts.
const maxRows = 32

// WriteAttempts implements [store.AttemptLog], in one transaction. Where a server may be silent
// that is one of the guard's: drivers have COMMIT wait without end.
func (s *Store) WriteAttempts(ctx context.Context, list []store.Attempt) error {
	if s.dialect.name != store.SQLite {
		_, err := s.sweeping(ctx, sweeping{}, func(tx *sql.Tx) (store.Swept, error) {
			return store.Swept{}, s.insertAttempts(ctx, tx, list)
		})
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.down(err)
	}
	if err := s.insertAttempts(ctx, tx, list); err != nil {
		_ = tx.Rollback() // the first error says more
		return s.down(err)
	}
	if err := tx.Commit(); err != nil {
		return s.down(err)
	}
	return nil
}

func (s *Store) insertAttempts(ctx context.Context, tx *sql.Tx, list []store.Attempt) error {
	for part := range slices.Chunk(list, maxRows) {
		args := make([]any, 0, 20*len(part))
		for i := range part {
			args = append(args, attemptFields(&part[i])...)
		}
		if _, err := tx.ExecContext(ctx, insertText(s.dialect.name, len(part)), args...); err != nil {
			return err
		}
	}
	return nil
}

// insertText is the text that inserts n rows.
func insertText(d store.Dialect, n int) string {
	row := `(?, ?, ?, AGO(?)` + strings.Repeat(`, ?`, 16) + `)`
	return dialect.Text(d, `insert into once_attempt (`+pgsql.AttemptColumns+`) values `+row+strings.Repeat(`, `+row, n-1)+` KEEP(id)`)
}

// attemptFields are the values of an attempt in the order of pgsql.AttemptColumns.
func attemptFields(a *store.Attempt) []any {
	return []any{
		a.KeyHash, a.ID[:], a.Scope, time.Since(a.Ended).Microseconds(), a.Outcome, a.Effect, a.From, a.To, a.Cause,
		int64(a.Attempt), int64(a.Runs), a.Dropped, a.RequestID, a.CorrelationID, a.Node,
		a.LockWait.Microseconds(), a.Waited.Microseconds(), a.Handler.Microseconds(), a.Commit.Microseconds(), a.Total.Microseconds(),
	}
}

// SweepAttempts implements [store.AttemptLog].
func (s *Store) SweepAttempts(ctx context.Context, keep time.Duration, limit int) (int, error) {
	r, err := s.db.ExecContext(ctx, sweepAttempts[s.dialect.name], keep.Microseconds(), limit)
	if err != nil {
		return 0, s.down(err)
	}
	n, err := r.RowsAffected()
	return int(n), err
}
