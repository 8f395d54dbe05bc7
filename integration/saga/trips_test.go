package saga

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/saga"
)

// TestRoundTripsOfASaga counts what a saga of three one-insert steps with undo data costs on the wire, with pgx. Three raw transactions are three commits and nine
// round trips.
func TestRoundTripsOfASaga(t *testing.T) {
	var wire faultnet.Wire
	var commits harness.Commits
	db, pool := harness.OpenPgx(t, newDatabase(t, harness.Pgx), func(cfg *pgxpool.Config) {
		cfg.MaxConns, cfg.ConnConfig.DialFunc, cfg.ConnConfig.Tracer = 1, wire.DialContext, &commits
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a slow machine makes a connection look idle
	})
	s := system[pgx.Tx]{db: db}
	var steps, writes []saga.Step
	var txs []*saga.TxStep[pgx.Tx, string, string]
	var batches []*saga.BatchStep[string, string]
	for i := range 3 {
		name := fmt.Sprint("step", i)
		insert := func(ctx context.Context, tx pgx.Tx, key string) (string, error) {
			_, err := tx.Exec(ctx, "insert into effect (saga, what) values ($1, $2)", key, name)
			return name, err
		}
		tx := saga.Tx(name, insert).Undo(func(context.Context, pgx.Tx, string, string) error { return nil })
		batch := saga.Batch(name, func(b *once.Batch, key string) (string, error) {
			b.Add(s.insert(key, name))
			return name, nil
		}).Undo(func(*once.Batch, string, string) error { return nil })
		if i == 2 {
			tx, batch = tx.Last(), batch.Last()
		}
		steps, writes, txs, batches = append(steps, tx), append(writes, batch), append(txs, tx), append(batches, batch)
	}
	each := func(do func(i int) (string, error)) (last string, err error) {
		for i := 0; i < 3 && err == nil; i++ {
			last, err = do(i)
		}
		return last, err
	}
	inTx := saga.New("tx", func(ctx saga.Context, key string) (string, error) {
		return each(func(i int) (string, error) { return txs[i].Do(ctx, key) })
	}, steps...)
	inBatch := saga.New("batch", func(ctx saga.Context, key string) (string, error) {
		return each(func(i int) (string, error) { return batches[i].Do(ctx, key) })
	}, writes...)
	r := saga.NewRunner(db, saga.Config{TTL: patience}, inTx, inBatch) // no heartbeat
	n := 0
	for _, c := range []struct {
		name                       string
		trips, commits, statements int64
		run                        func(key string) error
	}{
		{"Do", 6, 3, 16, func(key string) error { _, err := saga.Do(t.Context(), r, inTx, idOf(key), key); return err }},
		{"Do, batches", 3, 3, 7, func(key string) error { _, err := saga.Do(t.Context(), r, inBatch, idOf(key), key); return err }},
		{"started in the caller's transaction, run by the starter", 3 + 2*3, 4, 24, func(key string) error {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				return err
			}
			h, err := saga.Start(t.Context(), r, tx, inTx, idOf(key), key)
			if err := errors.Join(err, tx.Commit(t.Context())); err != nil {
				return err
			}
			_, err = h.Result(t.Context())
			return err
		}},
	} {
		var trips, committed, statements int64
		for range 3 { // the first times fill pgx's statement cache
			n++
			before, committedBefore, statementsBefore := wire.Counts().RoundTrips, commits.Count(), commits.Statements()
			must(t, c.run(fmt.Sprint("order ", n)))
			trips, committed, statements = wire.Counts().RoundTrips-before, commits.Count()-committedBefore, commits.Statements()-statementsBefore
		}
		if trips != c.trips || committed != c.commits || statements != c.statements {
			t.Errorf("%s: %d round trips, %d commits and %d statements, want %d, %d and %d", c.name, trips, committed, statements, c.trips, c.commits, c.statements)
		}
	}
}
