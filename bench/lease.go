package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/pgxstore"
)

// Work under a lease, against hand-written code with the same commits. The call itself takes no time here.

const (
	nameCallByHand   = "claim row by hand"
	nameCall         = "one call"
	nameFirstCall    = "one call, first attempt"
	namePhasesByHand = "three transactions"
	namePhases       = "three phases"
	nameFirstPhases  = "three phases, first attempt"
	nameFirstBatches = "three phases that are batches, first attempt"
)

const leaseTable = `create table claim_by_hand (
  scope text, key text, fingerprint bytea not null, state text not null, lease_until timestamptz, result bytea, primary key (scope, key)
) with (fillfactor = 50)`

// callByHand is a claim, the call, and the result: two commits.
func callByHand(ctx context.Context, pool *pgxpool.Pool) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	_, err := pool.Exec(ctx, "insert into claim_by_hand (scope, key, fingerprint, state, lease_until) values ($1, $2, $3, 'running', now() + interval '30 s')",
		op.Scope, op.Key, op.Fingerprint[:])
	if err != nil {
		return err
	}
	body, err := json.Marshal(o.response())
	if err != nil {
		return err
	}
	tag, err := pool.Exec(ctx, "update claim_by_hand set state = 'done', lease_until = null, result = $3 where scope = $1 and key = $2 and state = 'running'", op.Scope, op.Key, body)
	if err == nil && tag.RowsAffected() != 1 {
		err = errTaken
	}
	return err
}

// leasedWork is an engine under leases.
type leasedWork struct {
	store  *pgxstore.Store
	engine *once.Engine[*lease.Run]
}

func (w leasedWork) do(ctx context.Context, first bool, handler func(context.Context, *lease.Run, order) (receipt, error)) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	if first {
		op.Attempt.Number = 1
	}
	r, err := once.Do(ctx, w.engine, op, func(ctx context.Context, run *lease.Run) (receipt, error) { return handler(ctx, run, o) })
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

func (w leasedWork) call(first bool) func(context.Context) error {
	return func(ctx context.Context) error {
		return w.do(ctx, first, func(ctx context.Context, run *lease.Run, o order) (receipt, error) {
			return lease.Call(ctx, run, "charge", func(context.Context, string) (receipt, error) { return o.response(), nil }, lease.CallPolicy{SafeToRepeat: true})
		})
	}
}

func insertCharge(ctx context.Context, tx execer, o order) error {
	_, err := tx.Exec(ctx, insertChargeText, o.ChargeID, o.Customer, o.Amount, o.Currency)
	return err
}

func (w leasedWork) phases(first bool) func(context.Context) error {
	return func(ctx context.Context) error {
		return w.do(ctx, first, func(ctx context.Context, run *lease.Run, _ order) (r receipt, err error) {
			for _, phase := range []string{"a", "b", "c"} {
				r, err = lease.InTx(ctx, run, w.store, phase, func(ctx context.Context, tx pgx.Tx) (receipt, error) {
					o := newOrder()
					return o.response(), insertCharge(ctx, tx, o)
				})
				if err != nil {
					return r, err
				}
			}
			return r, nil
		})
	}
}

// batches runs phases with one declared insert each.
func (w leasedWork) batches(ctx context.Context) error {
	return w.do(ctx, true, func(ctx context.Context, run *lease.Run, _ order) (r receipt, err error) {
		for _, phase := range []string{"a", "b", "c"} {
			r, err = lease.InBatch(ctx, run, phase, func(b *once.Batch) (receipt, error) {
				o := newOrder()
				b.Exec(insertChargeText, o.ChargeID, o.Customer, o.Amount, o.Currency)
				return o.response(), nil
			})
			if err != nil {
				return r, err
			}
		}
		return r, nil
	})
}

func phasesByHand(ctx context.Context, pool *pgxpool.Pool) error {
	for range 3 {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return insertCharge(ctx, tx, newOrder()) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) lease(ctx context.Context) (*throughput, error) {
	s := setting{slug: "lease", title: "Work under a lease, 16 clients", clients: 16}
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, _, err := b.server.prepare(ctx, database, 100, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, leaseTable); err != nil {
		return nil, err
	}
	t := &throughput{Slug: s.slug, Title: s.title}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	w := leasedWork{store: pgxstore.New(pool, pgxstore.Config{})}
	w.engine = once.New(lease.New(w.store, lease.Config{}), once.Config{Observer: once.Discard})
	byHand := func(f func(context.Context, *pgxpool.Pool) error) func(context.Context) error {
		return func(ctx context.Context) error { return f(ctx, pool) }
	}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), []*contestant{
		{name: nameCallByHand, run: byHand(callByHand)},
		{name: nameCall, run: w.call(false)},
		{name: nameFirstCall, run: w.call(true)},
		{name: namePhasesByHand, run: byHand(phasesByHand)},
		{name: namePhases, run: w.phases(false)},
		{name: nameFirstPhases, run: w.phases(true)},
		{name: nameFirstBatches, run: w.batches},
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if err := auditLeases(ctx, pool, r.field); err != nil {
		return nil, err
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range []comparison{
		{nameFirstCall, nameCallByHand, 0.65}, {nameCall, nameCallByHand, 0.5},
		{nameFirstPhases, namePhasesByHand, 0}, {namePhases, namePhasesByHand, 0}, {nameFirstBatches, namePhasesByHand, 0},
	} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}

// auditLeases counts the written rows: each phase once, and each operation done.
func auditLeases(ctx context.Context, pool *pgxpool.Pool, field []*contestant) error {
	var calls, phases, raw int64
	for _, c := range field {
		switch c.name {
		case nameCall, nameFirstCall:
			calls += c.ops
		case namePhases, nameFirstPhases, nameFirstBatches:
			phases += c.ops
		case namePhasesByHand:
			raw += c.ops
		}
	}
	var done, open, charges int64
	err := pool.QueryRow(ctx, "select (select count(*) from once_operation where state = 2), (select count(*) from once_operation where state <> 2), (select count(*) from charge)").
		Scan(&done, &open, &charges)
	const known = 100 // from the preparation of the server, each with a charge
	if want := calls + phases + known; err == nil && (done != want || open != 0 || charges != 3*(phases+raw)+known) {
		err = fmt.Errorf("of %d operations %d are done and %d open, and there are %d charges", want, done, open, charges)
	}
	return err
}

func (r *report) writeLease(p printer) {
	p("\n## Leases\n")
	p("**%s** is an insert and, after the call, an update of a row of its own: two commits, as leased work has with %s. The call takes", nameCallByHand, nameCall)
	p("no time. **%s** are one insert each, in transactions of pgx. %s have a commit more: the result.", namePhasesByHand, namePhases)
	r.Lease.write(p)
	if r.LeasesHeld != nil {
		r.LeasesHeld.write(p)
	}
}
