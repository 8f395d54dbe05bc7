package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Measurer = (*Store)(nil)

// Stored implements [upkeep.Measurer], by the primary key. A standby counts what it has.
func (s *Store) Stored(ctx context.Context, after store.ID, limit int) (list []upkeep.Stored, next store.ID, err error) {
	if err := s.unsendable(after); err != nil || limit <= 0 {
		return nil, next, err
	}
	var page dialect.StoredPage
	query, args := dialect.Stored(sqlplane.PostgreSQL, after, limit)
	if _, err = s.apart(ctx, pipeline{{sql: query, args: args, each: func(row pgx.Rows) error { return page.Add(row) }}}); err != nil {
		return nil, next, err
	}
	return page.List, page.Next(limit), nil
}
