package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/faultnet"
)

// cost is what one operation of one client costs, counted.
type cost struct {
	Name      string  `json:"name"`
	Trips     float64 `json:"round_trips"`
	Commits   float64 `json:"commits"`
	Rollbacks float64 `json:"rollbacks"`
	Syncs     float64 `json:"wal_syncs"`
}

const (
	warmUps = 20
	counted = 200
)

// costs counts round trips on the client's socket, and transactions and syncs in
// the server's statistics, for every contestant by itself.
func (b *bench) costs(ctx context.Context) ([]cost, error) {
	var all []cost
	for _, name := range []string{nameBare, nameInsertUpdate, nameTwoCommit, nameDo, nameFirst, nameReplays, nameElsewhere} {
		c, err := b.cost(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (b *bench) cost(ctx context.Context, name string) (c cost, err error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return c, err
	}
	var wire faultnet.Wire
	pool, err := b.server.pool(ctx, database, 1, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = wire.DialContext })
	if err != nil {
		return c, err
	}
	defer pool.Close()
	known := newCandidate(pool)
	if err := known.learn(ctx, warmUps, 1); err != nil {
		return c, err
	}
	one := find(field(pool, known), name)
	repeat := func(n int) error {
		for range n {
			if one.before != nil {
				one.before()
			}
			if err := one.run(ctx); err != nil {
				return err
			}
		}
		return pool.AcquireFunc(ctx, func(*pgxpool.Conn) error { return nil }) // a replay rolls back in the background
	}
	if err := repeat(warmUps); err != nil {
		return c, err
	}
	before, err := b.server.statistics(ctx, database, pool)
	if err != nil {
		return c, err
	}
	trips := wire.Counts().RoundTrips
	if err := repeat(counted); err != nil {
		return c, err
	}
	trips = wire.Counts().RoundTrips - trips
	after, err := b.server.statistics(ctx, database, pool)
	per := func(n int64) float64 { return float64(n) / counted }
	return cost{
		Name: name, Trips: per(trips), Commits: per(after.commits - before.commits - after.own),
		Rollbacks: per(after.rollbacks - before.rollbacks), Syncs: per(after.syncs - before.syncs),
	}, err
}

type statistics struct {
	commits, rollbacks, syncs int64
	own                       int64 // commits of the asking itself since the last time
}

// statistics makes the only session of a database hand in what it has counted, and
// reads it in a session on another database.
func (s *server) statistics(ctx context.Context, database string, pool *pgxpool.Pool) (st statistics, err error) {
	// The flush comes when the statement's transaction is over, so that a second
	// one is needed to know that it has happened.
	for range 2 {
		if _, err := pool.Exec(ctx, "select pg_stat_force_next_flush()"); err != nil {
			return st, err
		}
	}
	st.own = 2
	conn, err := pgx.Connect(ctx, s.pg.URL("postgres"))
	if err != nil {
		return st, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `select xact_commit, xact_rollback, (select wal_sync from pg_stat_wal) from pg_stat_database where datname = $1`,
		database).Scan(&st.commits, &st.rollbacks, &st.syncs)
	return st, err
}
