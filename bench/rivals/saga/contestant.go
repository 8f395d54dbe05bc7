package main

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/pgxstore"
)

// names of the contestants, in the order in which they are made.
var names = []string{"three transactions by hand", "once: saga.Do", "once: saga.Do, saga.Batch steps", "DBOS", "River"}

const (
	steps  = 3
	insert = "insert into booking (id, account, cents) values ($1, $2, $3)"
)

func newKey() string { return once.NewKey() }

// booking is what a step gets, and what it returns.
type booking struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

func bookingOf(key string, step int) booking {
	return booking{key + "/" + strconv.Itoa(step), "acc_4711", 1000}
}

func byHand(_ context.Context, pool *pgxpool.Pool) (func(context.Context, string) error, func(), error) {
	return func(ctx context.Context, key string) error {
		for n := range steps {
			b := bookingOf(key, n)
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, insert, b.ID, b.Account, b.Cents)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, func() {}, nil
}

// doer is a step of once.
type doer interface {
	saga.Step
	Do(ctx saga.Context, b booking) (booking, error)
}

func ours(ctx context.Context, pool *pgxpool.Pool) (func(context.Context, string) error, func(), error) {
	return sagaOf(ctx, pool, func(name string, last bool) doer {
		st := saga.Tx(name, func(ctx context.Context, tx pgx.Tx, b booking) (booking, error) {
			_, err := tx.Exec(ctx, insert, b.ID, b.Account, b.Cents)
			return b, err
		}).Undo(func(ctx context.Context, tx pgx.Tx, _, b booking) error {
			_, err := tx.Exec(ctx, "delete from booking where id = $1", b.ID)
			return err
		})
		if last {
			st = st.Last()
		}
		return st
	})
}

func ourBatches(ctx context.Context, pool *pgxpool.Pool) (func(context.Context, string) error, func(), error) {
	return sagaOf(ctx, pool, func(name string, last bool) doer {
		st := saga.Batch(name, func(w *once.Batch, b booking) (booking, error) {
			w.Exec(insert, b.ID, b.Account, b.Cents)
			return b, nil
		}).Undo(func(w *once.Batch, _, b booking) error {
			w.Exec("delete from booking where id = $1", b.ID)
			return nil
		})
		if last {
			st = st.Last()
		}
		return st
	})
}

func sagaOf(ctx context.Context, pool *pgxpool.Pool, step func(name string, last bool) doer) (func(context.Context, string) error, func(), error) {
	if err := pgxstore.Migrate(ctx, pool, saga.Migrations); err != nil {
		return nil, nil, err
	}
	var flow []doer
	var all []saga.Step
	for n := range steps {
		st := step("book "+strconv.Itoa(n), n == steps-1)
		flow, all = append(flow, st), append(all, st)
	}
	d := saga.New("rival", func(ctx saga.Context, key string) (last booking, err error) {
		for n := 0; n < steps && err == nil; n++ {
			last, err = flow[n].Do(ctx, bookingOf(key, n))
		}
		return last, err
	}, all...)
	r := saga.NewRunner(pgxstore.New(pool, pgxstore.Config{}), saga.Config{}, d)
	return func(ctx context.Context, key string) error {
		_, err := saga.Do(ctx, r, d, saga.ID{Tenant: "acme", Key: key}, key)
		return err
	}, func() {}, nil
}

func dbosWorkflow(ctx context.Context, pool *pgxpool.Pool) (func(context.Context, string) error, func(), error) {
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "rival", SystemDBPool: pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	ds, err := dbos.NewDataSource(d, pool)
	if err != nil {
		return nil, nil, err
	}
	workflow := func(ctx dbos.Context, key string) (last booking, err error) {
		for n := 0; n < steps && err == nil; n++ {
			last, err = dbos.RunAsTransaction(ctx, ds, func(ctx context.Context, tx dbos.Tx) (booking, error) {
				b := bookingOf(key, n)
				_, err := tx.Exec(ctx, insert, b.ID, b.Account, b.Cents)
				return b, err
			})
		}
		return last, err
	}
	dbos.RegisterWorkflow(d, workflow)
	if err := dbos.Launch(d); err != nil {
		return nil, nil, err
	}
	return func(_ context.Context, key string) error {
		h, err := dbos.RunWorkflow(d, workflow, key, dbos.WithWorkflowID(key))
		if err == nil {
			_, err = h.GetResult()
		}
		return err
	}, func() { _ = dbos.Shutdown(d, 10*time.Second) }, nil
}

// step is a job of River.
type step struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

func (step) Kind() string { return "step" }

func riverChain(ctx context.Context, pool *pgxpool.Pool) (func(context.Context, string) error, func(), error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, nil, err
	}
	var client *river.Client[pgx.Tx]
	var ended sync.Map // by key: a channel
	work := func(ctx context.Context, job *river.Job[step]) error {
		b := bookingOf(job.Args.Key, job.Args.N)
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insert, b.ID, b.Account, b.Cents); err != nil {
				return err
			}
			if job.Args.N < steps-1 {
				if _, err := client.InsertTx(ctx, tx, step{job.Args.Key, job.Args.N + 1}, nil); err != nil {
					return err
				}
			}
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
		if err != nil || job.Args.N < steps-1 {
			return err
		}
		if done, waits := ended.LoadAndDelete(job.Args.Key); waits {
			close(done.(chan struct{})) //nolint:forcetypeassert // nothing else is stored
		}
		return nil
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(work))
	client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: clients}},
		FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, key string) error {
		done := make(chan struct{})
		ended.Store(key, done)
		if _, err := client.Insert(ctx, step{key, 0}, nil); err != nil {
			return err
		}
		<-done
		return nil
	}, func() { _ = client.Stop(context.WithoutCancel(ctx)) }, nil
}
