package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
)

// What it costs that each commit checks who owns its tenant, if all clients work for one tenant: they share the lock of one row.

const (
	nameAnywhere     = "Do, in one region"
	nameOwned        = "Do, tenant owned by its region"
	nameAnywhereOnce = "Do, first attempt, in one region"
	nameOwnedOnce    = "Do, first attempt, tenant owned by its region"
)

const homeBar = 0.6

func (b *bench) home(ctx context.Context) (*throughput, error) {
	s := setting{slug: "home", title: "Regions, 16 clients on one tenant", clients: 16}
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, plain, err := b.server.prepare(ctx, database, 1, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	t := &throughput{Slug: s.slug, Title: s.title}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	db := pgxstore.New(pool, pgxstore.Config{})
	if err := pgxstore.Migrate(ctx, pool, home.Migrations); err != nil {
		return nil, err
	}
	if err := (home.Mover{Regions: map[string]sqlplane.Database{"eu": db}}).Move(ctx, home.TenantOf(scope), "eu"); err != nil {
		return nil, err
	}
	owned := &candidate{pool: pool, engine: once.New[pgx.Tx](home.New(db, home.NewMap("eu")), once.Config{})}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), []*contestant{
		{name: nameAnywhere, run: plain.executions}, {name: nameOwned, run: owned.executions},
		{name: nameAnywhereOnce, run: plain.first}, {name: nameOwnedOnce, run: owned.first},
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range []comparison{{nameOwned, nameAnywhere, homeBar}, {nameOwnedOnce, nameAnywhereOnce, homeBar}} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}
