package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// lates ask whether a moment is over. A database that is not asked is judged by the clock
// of this process.
var lates = map[Dialect]struct {
	of   func(time.Time) any
	late string // moment: whether it is over
}{
	PostgreSQL: {asTime, pgsql.Late},
	MySQL:      {asMillis, `select ` + mysqlNow + ` >= ?`},
	SQLite:     {asMillis, `select ` + sqliteNow + ` >= ?1`},
}

func asTime(t time.Time) any   { return t }
func asMillis(t time.Time) any { return t.UnixMilli() }

// late returns an error if it is too late to execute what a look-up, which has come
// before, has not found.
func (s *Store) late(ctx context.Context, tx *sql.Tx, ask store.Ask) error {
	if ask.Until.IsZero() {
		return nil
	}
	m, known := lates[s.dialect.name]
	late := !known && !time.Now().Before(ask.Until)
	if known {
		if err := tx.QueryRowContext(ctx, m.late, m.of(ask.Until)).Scan(&late); err != nil {
			return s.down(err)
		}
	}
	if late {
		return &store.Error{Kind: store.Stale, Err: errLate}
	}
	return nil
}

var errLate = errors.New("sqlstore: too late for what is absent")
