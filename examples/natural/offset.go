package natural

import (
	"context"
	"database/sql"

	"github.com/oncelib/once/store/sqlplane"
)

var (
	advance = statement{
		postgres: `insert into position (source, seq) values ($1, $2)
			on conflict (source) do update set seq = excluded.seq where excluded.seq > position.seq`,
		mysql: `update position set seq = ? where source = ? and seq < ?`,
	}
	// startMySQL comes first on MySQL, whose upsert does not say reliably whether it has changed a row.
	startMySQL = `insert into position (source, seq) values (?, -1) on duplicate key update seq = seq`
)

// Apply has its effect if seq is above the last number of the source that had one, and reports whether
// it had it. Numbers begin at 0 or above. The last number of a source is a row of
//
//	create table position (source varchar(100) primary key, seq bigint not null)
//
// and commits with the effect.
func Apply(ctx context.Context, db *sql.DB, d sqlplane.Dialect, source string, seq int64, effect func(tx *sql.Tx) error) (applied bool, err error) {
	err = inTx(ctx, db, func(tx *sql.Tx) error {
		if applied, err = Advance(ctx, tx, d, source, seq); !applied || err != nil {
			return err
		}
		return effect(tx)
	})
	return applied && err == nil, err
}

// Advance moves the position of a source forward, and never back. It locks the position until the
// transaction ends.
func Advance(ctx context.Context, tx *sql.Tx, d sqlplane.Dialect, source string, seq int64) (moved bool, err error) {
	args := []any{source, seq}
	if d == sqlplane.MySQL {
		if _, err := tx.ExecContext(ctx, startMySQL, source); err != nil {
			return false, err
		}
		args = []any{seq, source, seq}
	}
	return isChanged(tx.ExecContext(ctx, advance.on(d), args...))
}
