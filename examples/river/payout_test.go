package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// losing is a store whose first commit is applied and not answered, and which then is not reached until it is back.
type losing struct {
	store.Store[pgx.Tx]

	commits atomic.Int64
	down    atomic.Bool
}

func (s *losing) Unwrap() any { return s.Store }

func (s *losing) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[pgx.Tx], store.Record, error) {
	if s.down.Load() {
		return nil, store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: errors.New("the database is away")}
	}
	c, rec, err := s.Store.Begin(ctx, opts)
	if c != nil {
		c = &losingClaim{c, s}
	}
	return c, rec, err
}

type losingClaim struct {
	store.Transaction[pgx.Tx]

	s *losing
}

func (c *losingClaim) Unwrap() any { return c.Transaction }

func (c *losingClaim) Commit(ctx context.Context, ch store.Change) error {
	err := c.Transaction.Commit(ctx, ch)
	if err == nil && c.s.commits.Add(1) == 1 {
		c.s.down.Store(true)
		return &store.Error{Kind: store.KindLost, Err: errors.New("the connection broke behind COMMIT")}
	}
	return err
}

// soon is a worker that River tries again at once. Before that, the database is back.
type soon struct {
	*payer

	lost *losing
}

func (s soon) NextRetry(*river.Job[Payout]) time.Time {
	s.lost.down.Store(false)
	return time.Now()
}

// TestAJobIsAnOperation: a job whose COMMIT was applied and not answered fails, and River runs it again: it is paid out once. A second job is a
// second payout, and a "no" is not tried again.
func TestAJobIsAnOperation(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	pool, client, err := newClient(ctx, testenv.NewDatabase(t), func(pool *pgxpool.Pool) workers {
		w := workersOf(pool)
		lost := &losing{Store: pgxstore.New(pool, pgxstore.Config{})}
		w.payouts = soon{&payer{engine: once.New[pgx.Tx](lost, once.Config{Settle: 50 * time.Millisecond, Observer: once.Discard})}, lost}
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	events, stop := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled)
	defer stop()
	if err := client.Start(ctx); err != nil {
		t.Fatal(err)
	}
	ends := func(p Payout, kinds ...river.EventKind) *rivertype.JobRow {
		t.Helper()
		if _, err := client.Insert(ctx, p, nil); err != nil {
			t.Fatal(err)
		}
		var job *rivertype.JobRow
		for _, want := range kinds {
			select {
			case e := <-events:
				if job = e.Job; e.Kind != want {
					t.Fatalf("%s, want %s: %+v", e.Kind, want, job.Errors)
				}
			case <-ctx.Done():
				t.Fatalf("no end of %+v: %s", p, want)
			}
		}
		return job
	}
	if job := ends(Payout{"ann", 700}, river.EventKindJobFailed, river.EventKindJobCompleted); job.Attempt != 2 {
		t.Errorf("attempt %d", job.Attempt)
	}
	ends(Payout{"ann", 700}, river.EventKindJobCompleted)
	ends(Payout{"ann", 0}, river.EventKindJobCancelled)
	if err := client.Stop(ctx); err != nil {
		t.Error(err)
	}
	var paid int
	if err := pool.QueryRow(ctx, "select count(*) from payout").Scan(&paid); err != nil || paid != 2 {
		t.Errorf("paid out %d times, %v", paid, err)
	}
}
