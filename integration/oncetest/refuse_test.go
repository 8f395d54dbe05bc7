package oncetest

import (
	"context"
	"database/sql"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// refusing is a store whose handlers have a statement refused.
type refusing[TX any] struct {
	harness.Store[TX]

	asked, at int
}

func (s *refusing[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	opts.Refuse = func() bool {
		s.asked++
		return s.asked == s.at
	}
	return s.Store.Begin(ctx, opts)
}

// refuse: of a handler with three statements each is refused in turn: its error is the database's, nothing of the handler is applied, and another one beside
// it, and the store, are not asked.
func refuse[TX any](t *testing.T, c conn[TX]) {
	for at := 1; at < 10; at++ {
		s := &refusing[TX]{Store: c.store, at: at}
		e, beside := once.New(store.Store[TX](s), once.Config{Observer: once.Discard}), once.New(store.Store[TX](c.store), once.Config{Observer: once.Discard})
		op := once.Operation{Scope: "refuse", Key: once.NewKey()}
		var said error
		run := func(ctx context.Context, tx TX) (string, error) {
			for range 3 {
				if err := c.exec(ctx, tx, "insert into mark (name) values (?)", once.NewKey()); err != nil {
					said = err
					next := c.exec(ctx, tx, "insert into mark (name) values (?)", "after it")
					if next == nil {
						t.Error("a statement runs after one that was refused")
					}
					return "swallowed", nil
				}
			}
			return "done", nil
		}
		_, err := once.Do(t.Context(), e, op, run)
		if err == nil {
			if at != 4 || s.asked != 3 {
				t.Errorf("asked %d times, for 3 statements; %d were refused", s.asked, at-1)
			}
			break
		}
		if code := once.CodeOf(err); code != once.CodeAborted || said == nil {
			t.Errorf("statement %d is refused with %v, and the operation ends with %v", at, said, err)
		}
		rec, err := c.store.Read(t.Context(), store.ID{Scope: op.Scope, Key: op.Key})
		if err != nil || rec.State != store.StateAbsent {
			t.Errorf("a record is there: %+v, %v", rec, err)
		}
		if _, err := once.Do(t.Context(), beside, once.Operation{Scope: "beside", Key: op.Key}, run); err != nil {
			t.Errorf("an operation of another engine: %v", err)
		}
	}
	if n := harness.Count(t, c.store, "select count(*) from mark"); n != 4*3 {
		t.Errorf("%d rows, of 4 operations", n)
	}
}

// TestAStatementIsRefused: BeginOptions.Refuse fails one statement of one handler as the database would.
func TestAStatementIsRefused(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, []string{harness.Pgx, harness.SQLite, harness.Postgres, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) {
		d := newDatabase(t, kind)
		if kind == harness.Pgx {
			refuse(t, pgxWorld(t, d).open(nil))
			return
		}
		refuse(t, sqlWorld(t, d).open(nil))
	})
}

// costOf returns the allocations and the round trips of 100 statements of a handler.
func costOf[TX any](t *testing.T, s store.Store[TX], exec func(ctx context.Context, tx TX) error, wire *faultnet.Wire) (allocations float64, roundTrips int64) {
	t.Helper()
	e := once.New(s, once.Config{Observer: once.Discard})
	allocations = math.Inf(1)
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "cost", Key: once.NewKey()}, func(ctx context.Context, tx TX) (string, error) {
		run := func() {
			if err := exec(ctx, tx); err != nil {
				t.Error(err)
			}
		}
		for range 5 { // the least of them: a pool may be empty at first, and other goroutines allocate as well
			allocations = min(allocations, testing.AllocsPerRun(20, run))
		}
		before := wire.Counts().RoundTrips
		for range 100 {
			run()
		}
		roundTrips = wire.Counts().RoundTrips - before
		return "done", nil
	})
	harness.Must(t, err)
	return allocations, roundTrips
}

func costs[TX any](t *testing.T, s harness.Store[TX], exec func(ctx context.Context, tx TX) error, wire *faultnet.Wire) {
	t.Helper()
	hooked := &refusing[TX]{Store: s}
	allocations, roundTrips := costOf(t, store.Store[TX](s), exec, wire)
	withHook, trips := costOf(t, store.Store[TX](hooked), exec, wire)
	if hooked.asked < 200 || withHook != allocations || trips != roundTrips {
		t.Errorf("a statement has %v allocations and 100 have %d round trips; with a hook (asked %d times) %v and %d", allocations, roundTrips, hooked.asked, withHook, trips)
	}
	t.Logf("%v allocations, %d round trips of 100 statements", allocations, roundTrips)
}

// TestAHookThatRefusesNothingIsFree: a statement has as many allocations and round trips with a hook that refuses nothing as without a hook.
func TestAHookThatRefusesNothingIsFree(t *testing.T) {
	testenv.Both(t)
	for _, kind := range []string{harness.Pgx, harness.SQLite, harness.Postgres, harness.MariaDB} {
		t.Run(kind, func(t *testing.T) { // not in parallel: allocations are those of the process
			harness.Cell(t, kind == harness.Pgx || kind == harness.SQLite)
			d, wire := newDatabase(t, kind), &faultnet.Wire{}
			overSQL := func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "update account set balance = balance - 5")
				return err
			}
			switch kind {
			case harness.Pgx:
				s, _ := harness.OpenPgx(t, d, func(c *pgxpool.Config) { c.ConnConfig.DialFunc = wire.DialContext })
				costs(t, harness.Store[pgx.Tx](s), func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "update account set balance = balance - 5")
					return err
				}, wire)
			case harness.SQLite:
				s, _ := harness.OpenSQL(t, d)
				costs(t, harness.Store[*sql.Tx](s), overSQL, wire)
			default:
				s, _ := harness.OpenDialed(t, d, wire.DialContext)
				costs(t, harness.Store[*sql.Tx](s), overSQL, wire)
			}
		})
	}
}
