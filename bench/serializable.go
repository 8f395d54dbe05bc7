package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// SERIALIZABLE, where operations of different keys could fail each other: new keys are
// neighbours in the index. One conflict ends the run.

const nameReadCommitted = "Do, READ COMMITTED"

var serializableSettings = []setting{
	{slug: "serializable1", title: "SERIALIZABLE, 1 client", clients: 1, bars: bars{bare: 0.70}},
	{slug: "serializable16", title: "SERIALIZABLE, 16 clients", clients: 16, bars: bars{bare: 0.65}},
}

var serializableComparisons = []comparison{
	{nameDo, nameReadCommitted, 0}, {nameFirst, nameDo, 0},
}

func (b *bench) serializable(ctx context.Context) (all []throughput, err error) {
	for _, s := range serializableSettings {
		t, err := b.serializableIn(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.slug, err)
		}
		all = append(all, *t)
	}
	return all, nil
}

func (b *bench) serializableIn(ctx context.Context, s setting) (*throughput, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	const known = 100
	pool, c, err := b.server.prepare(ctx, database, known, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	t := &throughput{Slug: s.slug, Title: s.title}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	c.engine = once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1}) // nothing is run again unseen
	execute := func(first bool) func(context.Context) error {
		return func(ctx context.Context) error {
			o := newOrder()
			op := newOperation(once.NewKey(), o)
			op.Isolation = store.Serializable
			if first {
				op.Attempt.Number = 1
			}
			return c.execute(ctx, op, o)
		}
	}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), []*contestant{
		{name: nameBare, run: func(ctx context.Context) error {
			o := newOrder()
			return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
				_, err := o.place(ctx, tx)
				return err
			})
		}},
		{name: nameDo, run: execute(false)},
		{name: nameFirst, run: execute(true)},
		{name: nameReadCommitted, run: c.executions},
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if err := auditBatch(ctx, pool, r.field, known); err != nil {
		return nil, err
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range append([]comparison{{nameDo, nameBare, s.bars.bare}}, serializableComparisons...) {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}
