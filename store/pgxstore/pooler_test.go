package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
)

const (
	credit = "update account set balance = balance + $1 where id = 1"
	debit  = "update account set balance = balance - $1 where id = 1"
)

// TestATransactionPoolerRunsNoOtherStatement: behind PgBouncer in transaction mode two
// transactions of one client connection may run in two sessions of the server. What another
// client has prepared there never runs in place of the caller's statement, and the error says
// what to do.
func TestATransactionPoolerRunsNoOtherStatement(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "postgresql", "pgbouncer")
	for name, book := range map[string]func(context.Context, *once.Engine[pgx.Tx], string) error{
		"batch": func(ctx context.Context, e *once.Engine[pgx.Tx], sql string) error {
			_, err := once.DoBatch(ctx, e, once.Operation{Scope: "p", Key: once.NewKey()}, func(b *once.Batch) (int, error) {
				b.ExecRows(1, sql, 5)
				return 1, nil
			})
			return err
		},
		"first attempt": func(ctx context.Context, e *once.Engine[pgx.Tx], sql string) error {
			_, err := once.Do(ctx, e, once.Operation{Scope: "p", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, sql, 5)
				return 1, err
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			direct := openPool(t)
			dsn := throughPooler(t, direct)
			cfg := once.Config{Runs: 1} // another run has another connection, and may succeed
			one, two := once.New(pgxstore.New(openOn(t, dsn), pgxstore.Config{}), cfg), once.New(pgxstore.New(openOn(t, dsn), pgxstore.Config{}), cfg)
			if err := book(ctx, one, credit); err != nil {
				t.Fatal(err)
			}
			release := holdSession(t, dsn) // the one in which the first client has prepared its statements
			defer release()
			if err := book(ctx, two, debit); err != nil {
				t.Fatal("in a session of its own:", err)
			}
			balance := count(t, direct, "select balance from account where id = 1")
			err := book(ctx, one, credit) // in the session where two has prepared its own
			after := count(t, direct, "select balance from account where id = 1")
			if after < balance {
				t.Fatalf("a credit was booked as a debit, and the answer was: %v", err)
			}
			switch {
			case err == nil:
				t.Error("nothing went wrong: was it the other session?")
			case after != balance, once.EffectOf(err) != once.EffectNotApplied:
				t.Errorf("%v, and the balance went from %d to %d", err, balance, after)
			case !strings.Contains(err.Error(), "Try: default_query_exec_mode=exec"):
				t.Errorf("does not say what to do: %v", err)
			}
		})
	}
}

// throughPooler returns how to reach pool's database through a pooler in transaction mode.
func throughPooler(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	pooler, err := testenv.StartPgBouncer(tb.Context(), testenv.SharedPostgres(tb), pool.Config().ConnConfig.Database)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = pooler.Close() })
	return pooler.URL()
}

// openOn returns a pool of one connection.
func openOn(tb testing.TB, dsn string) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(tb.Context()), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// holdSession keeps the session that was used last, which is the one that the pooler gives
// first, from others until release.
func holdSession(tb testing.TB, dsn string) (release func()) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := conn.Exec(tb.Context(), "begin"); err != nil {
		tb.Fatal(err)
	}
	return func() {
		ctx := context.WithoutCancel(tb.Context())
		_, err := conn.Exec(ctx, "rollback")
		if err = errors.Join(err, conn.Close(ctx)); err != nil {
			tb.Error(err)
		}
	}
}
