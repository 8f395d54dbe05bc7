package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// An operation whose client says nothing of its attempts, with the look-up before the handler and in the trip of its first statement. Each of the
// two is also there by hand, with the least that it needs: what the way itself gains, apart from this library.

const (
	nameLookedUp         = "look-up first, by hand"
	nameLookedUpWithWork = "look-up with the first statement, by hand"
	nameOptimistic       = "Do, Optimistic"
)

func (b *bench) optimistic(ctx context.Context) (*throughput, error) {
	s := setting{slug: "optimistic", title: "Look-up with the first statement, 16 clients", clients: 16}
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
	byHand := func(work bool) func(context.Context) error {
		return func(ctx context.Context) error { return lookedUpByHand(ctx, pool, work) }
	}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), []*contestant{
		{name: nameBare, run: func(ctx context.Context) error { return bare(ctx, pool) }},
		{name: nameLookedUp, run: byHand(false)},
		{name: nameLookedUpWithWork, run: byHand(true)},
		{name: nameDo, run: c.executions},
		{name: nameOptimistic, run: func(ctx context.Context) error {
			o := newOrder()
			op := newOperation(once.NewKey(), o)
			op.Optimistic = true
			return c.execute(ctx, op, o)
		}},
		{name: nameFirst, run: c.first},
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
	for _, c := range []comparison{
		{nameLookedUpWithWork, nameLookedUp, 1.15},
		{nameOptimistic, nameDo, 1.15}, {nameFirst, nameDo, 0}, {nameDo, nameBare, 0}, {nameOptimistic, nameBare, 0}, {nameFirst, nameBare, 0}, {nameLookedUp, nameBare, 0}, {nameLookedUpWithWork, nameBare, 0},
	} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}

// claimAbsent divides by zero if the key is claimed or there.
const claimAbsent = `select now(), 1 / (pg_try_advisory_xact_lock($1) and not exists (select from once_operation where scope = $2 and key = $3))::int`

// lookedUpByHand is Do by pgx alone. withWork sends the look-up together with the first statement.
func lookedUpByHand(ctx context.Context, pool *pgxpool.Pool, withWork bool) error {
	o, id := newOrder(), store.ID{Scope: scope, Key: once.NewKey()}
	nonce := make([]byte, 16)
	rand.Read(nonce)
	fingerprint := o.fingerprint()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var start time.Time
	var b pgx.Batch
	b.Queue("begin")
	if withWork {
		b.Queue(claimAbsent, pgsql.LockID(id), id.Scope, id.Key).QueryRow(func(row pgx.Row) error { return row.Scan(&start, nil) })
		b.Queue(insertChargeText, o.ChargeID, o.Customer, o.Amount, o.Currency)
	} else {
		b.Queue(pgsql.Lock, pgsql.LockID(id)).QueryRow(func(row pgx.Row) error { return row.Scan(&start, nil, nil, nil) })
		b.Queue(pgsql.Read, id.Scope, id.Key)
	}
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if !withWork {
		if _, err := conn.Exec(ctx, insertChargeText, o.ChargeID, o.Customer, o.Amount, o.Currency); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, insertEntryText, o.EntryID, o.ChargeID, "receivable", "debit", o.Amount); err != nil {
		return err
	}
	body, err := json.Marshal(o.response())
	if err != nil {
		return err
	}
	const retain = 72 * time.Hour
	var end pgx.Batch
	end.Queue(pgsql.InsertDone, id.Scope, id.Key, nonce, fingerprint[:], 0, 0, nil, body, float64(retain.Milliseconds()), start)
	end.Queue("commit")
	return errors.Join(conn.SendBatch(ctx, &end).Close())
}

func (r *report) writeOptimistic(p printer) {
	p("\n## Look-up with the first statement\n")
	p("Clients that say nothing of their attempts. **%s** sends BEGIN, claim and look-up, then each statement, then the record with", nameLookedUp)
	p("COMMIT, by pgx alone; **%s** sends the first statement with the claim and the look-up, and the server skips it", nameLookedUpWithWork)
	p("unless the key is free and absent.\n")
	r.Optimistic.writeBody(p)
}
