package integration

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/store/pgxstore"
)

func openPgx(ctx context.Context, su setup) (system, error) {
	pool, err := openPool(ctx, su)
	if err != nil {
		return nil, err
	}
	r := newRig[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}), su)
	r.close = pool.Close
	r.exec = func(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}
	r.begin = func(ctx context.Context) (ownTx[pgx.Tx], error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return ownTx[pgx.Tx]{}, err
		}
		return ownTx[pgx.Tx]{tx, tx.Commit, tx.Rollback}, nil
	}
	return r, nil
}

func openPool(ctx context.Context, su setup) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(su.dsn)
	if err != nil {
		return nil, err
	}
	if su.dial != nil {
		cfg.ConnConfig.DialFunc = su.dial
	}
	su.polite(&cfg.ConnConfig.Config)
	if su.conns > 0 {
		cfg.MaxConns = int32(su.conns)
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}
