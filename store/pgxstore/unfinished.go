package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// Unfinished implements [upkeep.Lister]. Unfinished reads an index of the operations that are not done. On a
// standby, which may lag behind, Unfinished returns an error.
func (s *Store) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, next store.ID, err error) {
	if err := s.unsendable(page.After); err != nil {
		return nil, next, err
	}
	var recovery bool
	text, args := pgsql.Unfinished, []any{page.After.Scope, page.After.Key, int64(page.Limit), page.Due, page.Name, int64(page.State)}
	if page.Before != "" {
		text, args = pgsql.UnfinishedBefore, append(args, page.Before)
	}
	_, err = s.apart(ctx, pipeline{
		{sql: pgsql.Recovery, each: func(row pgx.Rows) error { return row.Scan(&recovery) }},
		{sql: text, args: args, each: func(row pgx.Rows) error {
			var e upkeep.Entry
			var listed bool
			var n int
			r, err := scan(behind{row, []any{&e.Scope, &e.Key, &listed, &n}})
			if e.Record = r.Record; listed {
				list = append(list, e)
			}
			// The page is full, so the next page begins after this entry.
			if n == page.Limit {
				next = e.ID
			}
			return err
		}},
	})
	switch {
	case err != nil:
		return nil, store.ID{}, err
	case recovery:
		return nil, store.ID{}, down(pgsql.ErrRecovery)
	}
	return list, next, nil
}
