package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// deadlines holds the statements that ask a database whether a time has passed. If a database has no such statement,
// the clock of this process decides.
var deadlines = map[sqlplane.Dialect]struct {
	of   func(time.Time) any
	late string // whether the time, which is the argument, has passed
}{
	sqlplane.PostgreSQL: {asTime, pgsql.Late},
	sqlplane.MySQL:      {asMillis, `select ` + mysqlNow + ` >= ?`},
	sqlplane.SQLite:     {asMillis, `select ` + sqliteNow + ` >= ?1`},
}

func asTime(t time.Time) any   { return t }
func asMillis(t time.Time) any { return t.UnixMilli() }

// checkDeadline returns an error if staleAfter, of BeginOptions or of a Change, has passed. The caller must first find
// the record absent, because a record may expire and be deleted between the two steps.
func (s *Store) checkDeadline(ctx context.Context, tx *sql.Tx, staleAfter time.Time) error {
	if staleAfter.IsZero() {
		return nil
	}
	m, known := deadlines[s.dialect.name]
	late := !known && !time.Now().Before(staleAfter)
	if known {
		if err := tx.QueryRowContext(ctx, m.late, m.of(staleAfter)).Scan(&late); err != nil {
			return s.down(err)
		}
	}
	if late {
		return &store.Error{Kind: store.KindStale, Err: errTooLate}
	}
	return nil
}

var errTooLate = errors.New("sqlstore: the operation has no record, and its first attempt is older than the retention, so the record may have expired. Try: find out whether the operation has taken effect, before you use a new key")
