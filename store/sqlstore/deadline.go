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

// deadlines are the statements that ask a database whether a time is over. For a database without a statement,
// the clock of this process decides.
var deadlines = map[sqlplane.Dialect]struct {
	of   func(time.Time) any
	late string // moment: whether it is over
}{
	sqlplane.PostgreSQL: {asTime, pgsql.Late},
	sqlplane.MySQL:      {asMillis, `select ` + mysqlNow + ` >= ?`},
	sqlplane.SQLite:     {asMillis, `select ` + sqliteNow + ` >= ?1`},
}

func asTime(t time.Time) any   { return t }
func asMillis(t time.Time) any { return t.UnixMilli() }

// checkDeadline returns an error if staleAfter, of BeginOptions or of a Change, is over. It must be called
// after the record was found absent, because a record may have expired, and been swept, in between.
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
