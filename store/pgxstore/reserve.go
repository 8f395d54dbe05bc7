package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

var _ sqlplane.Reserver = abilities{}

// Reserve implements [sqlplane.Reserver] with a pool of one connection and the same settings.
func (a abilities) Reserve() (own sqlplane.Database, release func(), err error) {
	cfg := a.s.pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 1, 0, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, nil, &store.Error{Kind: store.KindOther, Err: err}
	}
	s := New(pool, Config{})
	// The server is the same, so the result of the probe is valid for the new store, too.
	s.byCommit.Store(a.s.byCommit.Load())
	s.probed.Store(a.s.probed.Load())
	return s, pool.Close, nil
}
