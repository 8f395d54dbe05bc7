// Command river welcomes customers with jobs of River. A job that runs again, because its
// worker was killed or its end was not recorded, writes one mail.
//
//	DATABASE_URL=postgres://... go run .
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/store/pgxstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("DATABASE_URL"))
	stop()
	if err != nil {
		slog.Error("the jobs do not run", "error", err)
		os.Exit(1)
	}
}

// Welcome is a job: write a mail to a customer.
type Welcome struct {
	Customer int64 `json:"customer"`
}

// Kind implements [river.JobArgs].
func (Welcome) Kind() string { return "welcome" }

type worker struct {
	river.WorkerDefaults[Welcome]

	engine *once.Engine[pgx.Tx]
}

func (w *worker) Work(ctx context.Context, job *river.Job[Welcome]) error {
	// The key names the customer, and not the job: two jobs for one customer send one mail.
	// The mail must never be written a second time. Without Retain, a retry after 72 hours would write it again.
	op := once.Operation{
		Scope:  "jobs",
		Key:    once.DeriveKey("welcome", strconv.FormatInt(job.Args.Customer, 10)),
		Retain: once.Forever,
	}
	_, err := once.Do(ctx, w.engine, op, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return writeMail(ctx, tx, job.Args.Customer)
	})
	return err
}

func writeMail(ctx context.Context, tx pgx.Tx, customer int64) (id int64, err error) {
	return id, tx.QueryRow(ctx, "insert into mail (customer) values ($1) returning id", customer).Scan(&id)
}

func run(ctx context.Context, dsn string) error {
	pool, client, err := newClient(ctx, dsn, workersOf)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = client.Insert(ctx, Welcome{Customer: 42}, nil)
	if err = errors.Join(err, client.Start(ctx)); err != nil {
		return err
	}
	<-client.Stopped()
	return nil
}

// workers are what works on the jobs.
type workers struct {
	welcomes river.Worker[Welcome]
	bookings river.Worker[Booking]
	payouts  river.Worker[Payout]
}

func workersOf(pool *pgxpool.Pool) workers {
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	return workers{&worker{engine: engine}, &booker{in: inbox.New(engine, inbox.Config{Consumer: "bookings"})}, &payer{engine: engine}}
}

func newClient(ctx context.Context, dsn string, of func(*pgxpool.Pool) workers) (*pgxpool.Pool, *river.Client[pgx.Tx], error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, nil, err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	_, created := pool.Exec(ctx, "create table if not exists mail (id bigint generated always as identity, customer bigint not null); "+
		"create table if not exists booking (amount bigint not null); "+
		"create table if not exists payout (id bigint generated always as identity, account text not null, cents bigint not null)")
	if err := errors.Join(err, created, pgxstore.Migrate(ctx, pool, inbox.Migrations, deadletter.Migrations)); err != nil {
		return nil, nil, err
	}
	list, registered := of(pool), river.NewWorkers()
	river.AddWorker(registered, list.welcomes)
	river.AddWorker(registered, list.bookings)
	river.AddWorker(registered, list.payouts)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers: registered, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
	})
	return pool, client, err
}
