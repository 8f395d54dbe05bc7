package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// Unfinished implements [store.Lister] by an index of what is not done. A standby, which may be
// behind, is an error.
func (s *Store) Unfinished(ctx context.Context, after store.ID, limit int) (list []store.Entry, err error) {
	if err := s.unsendable(after); err != nil {
		return nil, err
	}
	var recovery bool
	_, err = s.apart(ctx, pipeline{
		{sql: pgsql.Recovery, each: func(row pgx.Rows) error { return row.Scan(&recovery) }},
		{sql: pgsql.Unfinished, args: []any{after.Scope, after.Key, int64(limit)}, each: func(row pgx.Rows) error {
			var e store.Entry
			r, err := scan(behind{row, []any{&e.Scope, &e.Key}})
			e.Record = r.Record
			list = append(list, e)
			return err
		}},
	})
	switch {
	case err != nil:
		return nil, err
	case recovery:
		return nil, down(pgsql.ErrRecovery)
	}
	return list, nil
}
