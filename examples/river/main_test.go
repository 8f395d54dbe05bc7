package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// forgetful does the work, and then the first two ends of it are lost.
type forgetful struct {
	*worker

	runs atomic.Int64
}

func (f *forgetful) Work(ctx context.Context, job *river.Job[Welcome]) error {
	if err := f.worker.Work(ctx, job); err != nil {
		return err
	}
	if f.runs.Add(1) <= 2 {
		return errors.New("killed before its end was recorded")
	}
	return nil
}

func (*forgetful) NextRetry(*river.Job[Welcome]) time.Time { return time.Now() }

func TestOneMail(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var f *forgetful
	pool, client, err := newClient(ctx, testenv.NewDatabase(t), func(pool *pgxpool.Pool) workers {
		w := workersOf(pool)
		f = &forgetful{worker: w.welcomes.(*worker)}
		w.welcomes = f
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	done, stop := client.Subscribe(river.EventKindJobCompleted)
	defer stop()
	if err := client.Start(ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the caller has asked three times
		if _, err := client.Insert(ctx, Welcome{Customer: 42}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		select {
		case <-done:
		case <-ctx.Done():
			t.Fatal("the jobs do not end")
		}
	}
	if err := client.Stop(ctx); err != nil {
		t.Error(err)
	}
	var mails int
	if err := pool.QueryRow(ctx, "select count(*) from mail").Scan(&mails); err != nil || mails != 1 || f.runs.Load() != 5 {
		t.Errorf("%d mails after %d runs, %v", mails, f.runs.Load(), err)
	}
}
