package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/oncelib/once"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
)

const (
	nameByHand    = "by hand"
	nameRiver     = "River InsertTx"
	nameWatermill = "watermill-sql, default schema"
)

const (
	topic = "charges"
	event = "charge.succeeded"
)

const schema = `
create table charge (id text primary key, customer text not null, amount bigint not null, currency text not null, created_at timestamptz not null default now());
create table ledger_entry (id text primary key, charge_id text not null, account text not null, direction text not null, amount bigint not null);`

// addByHand takes the next number of a key and writes the event.
const addByHand = `with s as (
 insert into once_stream as t (topic, key, seq) values ($1, $2, 1) on conflict (topic, key) do update set seq = t.seq + 1 returning seq)
 insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select $3, $1, $2, s.seq, $4, $5, 'once', '', $6, false, '' from s`

// body is the event: about 300 bytes of JSON.
var body = []byte(`{"object":"charge","status":"succeeded","description":"` + strings.Repeat("two seats, row 7 ", 14) + `"}`)

// job is the event as an argument of River.
type job struct {
	Body string `json:"body"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return event }

func account() string { return "acct_" + strconv.Itoa(rand.N(1000)) }

// business is the transaction without an event.
func business(ctx context.Context, tx pgx.Tx) error {
	charge := once.NewKey()
	if _, err := tx.Exec(ctx, `insert into charge (id, customer, amount, currency) values ($1, $2, $3, $4)`, charge, "cus_4711", 1000, "eur"); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `insert into ledger_entry (id, charge_id, account, direction, amount) values ($1, $2, $3, $4, $5)`,
		once.NewKey(), charge, "receivable", "debit", 1000)
	return err
}

// producers returns all of them; the first is the hand-written one.
func producers(ctx context.Context, pool *pgxpool.Pool) ([]*producer, error) {
	if _, err := pool.Exec(ctx, schema); err != nil {
		return nil, err
	}
	if err := pgxstore.Migrate(ctx, pool, outbox.Migrations); err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{}) // it only inserts
	if err != nil {
		return nil, err
	}
	messages := wsql.DefaultPostgreSQLSchema{}
	setUp, err := wsql.NewPublisher(wsql.BeginnerFromPgx(pool), wsql.PublisherConfig{SchemaAdapter: messages, AutoInitializeSchema: true}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	if err := setUp.Publish(topic, message.NewMessage(once.NewKey(), body)); err != nil {
		return nil, err
	}
	within := func(publish func(context.Context, pgx.Tx) error) func(context.Context) error {
		return func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := business(ctx, tx); err != nil {
					return err
				}
				return publish(ctx, tx)
			})
		}
	}
	return append([]*producer{
		{name: nameByHand, run: within(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, addByHand, topic, account(), rand.N(64), once.NewKey(), event, body)
			return err
		})},
		{name: nameRiver, run: within(func(ctx context.Context, tx pgx.Tx) error {
			_, err := client.InsertTx(ctx, tx, job{string(body)}, nil)
			return err
		})},
		{name: nameWatermill, run: within(func(_ context.Context, tx pgx.Tx) error {
			p, err := wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: messages}, watermill.NopLogger{})
			if err != nil {
				return err
			}
			return p.Publish(topic, message.NewMessage(once.NewKey(), body))
		})},
	}, ours(pool)...), nil
}

// ours are the producers of once.
func ours(pool *pgxpool.Pool) []*producer {
	s := pgxstore.New(pool, pgxstore.Config{})
	engine, box := once.New(s, once.Config{}), outbox.New(s, outbox.Config{})
	do := func(first bool) func(context.Context) error {
		return func(ctx context.Context) error {
			op := once.Operation{Scope: "acme POST /charges", Key: once.NewKey()}
			if first {
				op.Attempt.Number = 1
			}
			_, err := once.Do(ctx, engine, op, func(ctx context.Context, tx pgx.Tx) (string, error) {
				if err := business(ctx, tx); err != nil {
					return "", err
				}
				return "succeeded", box.Add(ctx, tx, oncemessage.Message{Topic: topic, Key: account(), Type: event, Payload: body})
			})
			return err
		}
	}
	return []*producer{{name: "once: Do + Add", run: do(false)}, {name: "once: Do, first attempt + Add", run: do(true)}}
}
