package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
)

// An operation that publishes one event, against the same event in a transaction without
// idempotency, with the same sequence row.

const (
	nameByHand      = "outbox by hand"
	nameDoAdd       = "Do + Add"
	nameFirstAdd    = "Do, first attempt + Add"
	nameBatchAdd    = "batch + Add"
	outboxAccounts  = 1000 // ordering keys, uniformly
	outboxTopic     = "charges"
	outboxEventType = "charge.succeeded"
)

type outboxSetting struct {
	setting
	do, first, batch float64 // bars against the outbox by hand
}

var outboxSettings = []outboxSetting{
	{setting{slug: "outbox1", title: "Outbox, 1 client", clients: 1}, 0, 0, 1.4},
	{setting{slug: "outbox16", title: "Outbox, 16 clients", clients: 16}, 0.75, 0.9, 1.3},
	{setting{slug: "outboxnetwork16", title: "Outbox, 16 clients, 1 ms of network", clients: 16, delay: time.Millisecond}, 0, 0, 2},
}

// addByHand takes the next number of a key and writes the event: one statement, as in package outbox.
const addByHand = `with s as (
 insert into once_stream as t (topic, key, seq) values ($1, $2, 1) on conflict (topic, key) do update set seq = t.seq + 1 returning seq)
 insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select $3, $1, $2, s.seq, $4, $5, 'once', '', $6, false, '' from s`

func account() string { return "acct_" + strconv.Itoa(rand.N(outboxAccounts)) }

func outboxByHand(ctx context.Context, pool *pgxpool.Pool) error {
	o := newOrder()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		r, err := o.place(ctx, tx)
		if err != nil {
			return err
		}
		body, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, addByHand, outboxTopic, account(), rand.N(64), once.NewKey(), outboxEventType, body)
		return err
	})
}

// publisher is a candidate that publishes an event with each operation.
type publisher struct {
	*candidate
	box *outbox.Box[pgx.Tx]
}

func (r receipt) message() (message.Message, error) {
	body, err := json.Marshal(r)
	return message.Message{Topic: outboxTopic, Key: account(), Type: outboxEventType, Payload: body}, err
}

func (p publisher) do(first bool) func(context.Context) error {
	return func(ctx context.Context) error {
		o := newOrder()
		op := newOperation(once.NewKey(), o)
		if first {
			op.Attempt.Number = 1
		}
		r, err := once.Do(ctx, p.engine, op, func(ctx context.Context, tx pgx.Tx) (receipt, error) {
			r, err := o.place(ctx, tx)
			if err != nil {
				return r, err
			}
			m, err := r.message()
			if err != nil {
				return r, err
			}
			return r, p.box.Add(ctx, tx, m)
		})
		if err == nil && r.Replayed {
			err = errTaken
		}
		return err
	}
}

func (p publisher) batch(ctx context.Context) error {
	o := newOrder()
	r, err := once.DoBatch(ctx, p.engine, newOperation(once.NewKey(), o), func(b *once.Batch) (receipt, error) {
		r, err := o.declare(b)
		if err != nil {
			return r, err
		}
		m, err := r.message()
		if err != nil {
			return r, err
		}
		return r, p.box.Declare(ctx, b, m)
	})
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

func (b *bench) outbox(ctx context.Context) (all []throughput, err error) {
	for _, s := range outboxSettings {
		t, err := b.outboxIn(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.slug, err)
		}
		all = append(all, *t)
	}
	return all, nil
}

func (b *bench) outboxIn(ctx context.Context, s outboxSetting) (*throughput, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	const known = 100
	pool, c, err := b.server.prepare(ctx, database, known, s.setting)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := pgxstore.Migrate(ctx, pool, outbox.Migrations); err != nil {
		return nil, err
	}
	t := &throughput{Slug: s.slug, Title: s.title}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	p := publisher{c, outbox.New(pgxstore.New(pool, pgxstore.Config{}), outbox.Config{})}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), []*contestant{
		{name: nameByHand, run: func(ctx context.Context) error { return outboxByHand(ctx, pool) }},
		{name: nameDoAdd, run: p.do(false)},
		{name: nameFirstAdd, run: p.do(true)},
		{name: nameBatchAdd, run: p.batch},
		{name: nameDo, run: c.executions},
		{name: nameBare, run: func(ctx context.Context) error { return bare(ctx, pool) }},
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if err := auditOutbox(ctx, pool, r.field); err != nil {
		return nil, err
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range []comparison{
		{nameDoAdd, nameByHand, s.do}, {nameFirstAdd, nameByHand, s.first}, {nameBatchAdd, nameByHand, s.batch},
		{nameDoAdd, nameDo, 0}, {nameByHand, nameBare, 0},
	} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}

// auditOutbox counts events, and proves that the numbers of each key have no gaps.
func auditOutbox(ctx context.Context, pool *pgxpool.Pool, field []*contestant) error {
	var want int64
	for _, c := range field {
		switch c.name {
		case nameDo, nameBare:
		default:
			want += c.ops
		}
	}
	var events, numbers int64
	err := pool.QueryRow(ctx, "select (select count(*) from once_outbox), (select coalesce(sum(seq), 0) from once_stream)").Scan(&events, &numbers)
	if err == nil && (events != want || numbers != want) {
		err = fmt.Errorf("%d operations have left %d events with %d numbers", want, events, numbers)
	}
	return err
}

func (r *report) writeOutbox(p printer) {
	if len(r.Outbox) > 0 {
		p("\n## Outbox\n")
		p("Every operation publishes one event in its commit, with one of %d ordering keys. **%s** is the bare transaction with the same", outboxAccounts, nameByHand)
		p("event and the same sequence number, and no idempotency: one statement more, in a round trip of its own.")
	}
	for _, s := range r.Outbox {
		s.write(p)
	}
	for _, g := range r.OutboxGroups {
		p("\n| SQLite with group commit, %d clients | ratio | bar | | by CPU time |", g.Clients)
		p("|---|---|---|---|---|")
		for _, v := range g.Verdicts {
			p("| %s | %s | %.2f |", v.What, v.cells(), v.CPU)
		}
	}
}
