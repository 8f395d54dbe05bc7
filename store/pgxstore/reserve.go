package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/store"
)

var _ store.Reserver = (*Store)(nil)

// Reserve implements [store.Reserver] with a pool of one connection and the same settings.
func (s *Store) Reserve() (own store.Database, release func(), err error) {
	cfg := s.pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 1, 0, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, nil, &store.Error{Kind: store.KindOther, Err: err}
	}
	return New(pool), pool.Close, nil
}
