package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

var _ sqlplane.Reserver = (*Store)(nil)

// Reserve implements [sqlplane.Reserver] with a pool of one connection and the same settings.
func (s *Store) Reserve() (own sqlplane.Database, release func(), err error) {
	cfg := s.pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 1, 0, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, nil, &store.Error{Kind: store.KindOther, Err: err}
	}
	return New(pool, Config{}), pool.Close, nil
}
