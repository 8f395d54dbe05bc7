package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
)

// The batch form against the bare transaction, with the same rows. The bare one has a round trip for each of BEGIN, two inserts and COMMIT.

const nameBatch = "batch"

var batchSettings = []setting{
	{slug: "batch1", title: "Batch form, 1 client", clients: 1, bars: bars{bare: 1.1}},
	{slug: "batch16", title: "Batch form, 16 clients", clients: 16, bars: bars{bare: 1.1}},
	{slug: "batchnetwork1", title: "Batch form, 1 client, 1 ms of network", clients: 1, delay: time.Millisecond, bars: bars{bare: 2.3}},
	{slug: "batchnetwork16", title: "Batch form, 16 clients, 1 ms of network", clients: 16, delay: time.Millisecond, bars: bars{bare: 2.3}},
}

// batched executes an operation under a new key, in the batch form.
func (c *candidate) batched(ctx context.Context) error {
	o := newOrder()
	r, err := once.DoBatch(ctx, c.engine, newOperation(once.NewKey(), o), o.declare)
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

// declare is place as a batch.
func (o order) declare(b *once.Batch) (receipt, error) {
	b.Exec(insertChargeText, o.ChargeID, o.Customer, o.Amount, o.Currency)
	b.Exec(insertEntryText, o.EntryID, o.ChargeID, "receivable", "debit", o.Amount)
	return o.response(), nil
}

func (b *bench) batch(ctx context.Context) (all []throughput, err error) {
	for _, s := range batchSettings {
		t, err := b.batchIn(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.slug, err)
		}
		all = append(all, *t)
	}
	return all, nil
}

func (b *bench) batchIn(ctx context.Context, s setting) (*throughput, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	const known = 100 // statements are prepared, and tables have pages
	pool, c, err := b.server.prepare(ctx, database, known, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	t := &throughput{Slug: s.slug, Title: s.title}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), []*contestant{
		{name: nameBare, run: func(ctx context.Context) error { return bare(ctx, pool) }},
		{name: nameBatch, run: c.batched},
		{name: nameDo, run: c.executions},
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
	for _, c := range []comparison{{nameBatch, nameBare, s.bars.bare}, {nameBatch, nameDo, 0}, {nameDo, nameBare, 0}} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}

// auditBatch counts the written rows.
func auditBatch(ctx context.Context, pool *pgxpool.Pool, field []*contestant, known int64) error {
	effects, keys := known, known
	for _, c := range field {
		effects += c.ops
		if c.name != nameBare {
			keys += c.ops
		}
	}
	for table, n := range map[string]int64{"charge": effects, "ledger_entry": effects, "once_operation": keys} {
		var rows int64
		if err := pool.QueryRow(ctx, "select count(*) from "+table).Scan(&rows); err != nil {
			return err
		}
		if rows != n {
			return fmt.Errorf("%d rows in %s, %d expected", rows, table, n)
		}
	}
	return nil
}
