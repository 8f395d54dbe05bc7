package pgxstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// Take implements [upkeep.Taker] by one statement.
func (a abilities) Take(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration, then store.Statement) (taken []upkeep.Entry, err error) {
	var scopes, keys []string
	for _, id := range ids {
		if err := a.s.unsendable(id); err != nil {
			return nil, err
		}
		scopes, keys = append(scopes, id.Scope), append(keys, id.Key)
	}
	err = poolRunner(a).run(ctx, func(conn *pgx.Conn) (answered bool, err error) {
		rows, err := conn.Query(ctx, pgsql.Take(then.SQL), scopes, keys, nonce, millis(lease))
		if err != nil {
			return false, err
		}
		defer rows.Close()
		for rows.Next() {
			var e upkeep.Entry
			r, err := scan(behind{rows, []any{&e.Scope, &e.Key}})
			if err != nil {
				return true, err
			}
			e.Record = r.Record
			// The caller does not need them, and they may be large.
			e.Request, e.Result = nil, store.Result{}
			taken = append(taken, e)
		}
		return true, rows.Err()
	})
	return taken, err
}
