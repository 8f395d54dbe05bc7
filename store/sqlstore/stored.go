package sqlstore

import (
	"context"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Measurer = (*Store)(nil)

// Stored implements [upkeep.Measurer], by the primary key. A standby counts what it has.
func (s *Store) Stored(ctx context.Context, after store.ID, limit int) (list []upkeep.Stored, next store.ID, err error) {
	if limit <= 0 {
		return nil, next, nil
	}
	var page dialect.StoredPage
	query, args := dialect.Stored(s.dialect.name, after, limit)
	if err = s.Pool().Query(ctx, store.Statement{SQL: query, Args: args}, func(row sqlplane.Row) error { return page.Add(row) }); err != nil {
		return nil, next, err
	}
	return page.List, page.Next(limit), nil
}
