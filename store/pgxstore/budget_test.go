package pgxstore_test

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestTimeBudgetBecomesAStatementTimeout: the time that a caller has becomes the statement_timeout of its
// transaction, never beyond what the session had, and never for other users of the connection.
func TestTimeBudgetBecomesAStatementTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, session string
		left          time.Duration // of the context; 0: no deadline
		min, max      int           // milliseconds of statement_timeout
	}{
		{"none", "0", 0, 0, 0},
		{"of the caller", "0", 10 * time.Second, 1, 10_000},
		{"of the session, which is tighter", "5s", time.Minute, 5000, 5000},
		{"of the caller, which is tighter", "1min", 10 * time.Second, 1, 10_000},
		{"far away", "0", 100 * 24 * time.Hour, math.MaxInt32, math.MaxInt32},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := openPool(t, func(p *pgxpool.Config) {
				p.MaxConns = 1
				p.ConnConfig.RuntimeParams["statement_timeout"] = c.session
			})
			e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
			for _, first := range []bool{false, true} {
				ctx := context.Background()
				if c.left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.left)
					defer cancel()
				}
				op := once.Operation{Scope: "budget", Key: strconv.FormatBool(first), Attempt: attempt(first)}
				_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (ms int, err error) {
					err = tx.QueryRow(ctx, "select setting::int from pg_settings where name = 'statement_timeout'").Scan(&ms)
					if ms < c.min || ms > c.max {
						t.Errorf("first %v: %d ms, want %d to %d", first, ms, c.min, c.max)
					}
					return ms, err
				})
				if err != nil {
					t.Error(err)
				}
				var after string
				if err := pool.QueryRow(context.Background(), "show statement_timeout").Scan(&after); err != nil || after != c.session {
					t.Errorf("left behind: %s, %v", after, err)
				}
			}
		})
	}
}

// TestBudgetIsSpentInTheTail: nothing is applied, and it is worth another try.
func TestBudgetIsSpentInTheTail(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := once.Do(ctx, e, once.Operation{Scope: "budget", Key: "tail"}, func(_ context.Context, tx pgx.Tx) (int, error) {
		appendTo(t, tx, store.Statement{SQL: "select pg_sleep(60)"})
		return 1, nil
	})
	if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
}

// TestJoinLeavesNoBudget: the caller's transaction goes on after the operation.
func TestJoinLeavesNoBudget(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	own, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Rollback(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := once.Join(ctx, e, own, once.Operation{Scope: "budget", Key: "join"}, insertCharge("join")); err != nil {
		t.Fatal(err)
	}
	var left string
	if err := own.QueryRow(context.Background(), "show statement_timeout").Scan(&left); err != nil || left != "0" {
		t.Errorf("left behind: %s, %v", left, err)
	}
}

// TestIsolationIsTheOperations: what was asked for is what the handler has.
func TestIsolationIsTheOperations(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for level, want := range map[store.Isolation]string{
		store.DefaultIsolation: "read committed", store.ReadCommitted: "read committed",
		store.RepeatableRead: "repeatable read", store.Serializable: "serializable",
	} {
		op := once.Operation{Scope: "isolation", Key: want + strconv.Itoa(int(level)), Isolation: level}
		_, err := once.Do(context.Background(), e, op, func(ctx context.Context, tx pgx.Tx) (got string, err error) {
			err = tx.QueryRow(ctx, "show transaction_isolation").Scan(&got)
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			return got, err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestExpiredSparesTheLiving: what clears the way for a new record must never hit one
// that still counts, also if another caller was faster.
func TestExpiredSparesTheLiving(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for _, key := range []string{"living", "expired"} {
		if _, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: key}, insertCharge(key)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(ctx, "update once_operation set expires_at = now() where key = 'expired'"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"living", "expired"} {
		if _, err := pool.Exec(ctx, pgsql.Expired, "s", key); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, pool, "select count(*) from once_operation where key = 'living'"); n != 1 {
		t.Error("the living record is gone")
	}
	if n := count(t, pool, "select count(*) from once_operation where key = 'expired'"); n != 0 {
		t.Error("the expired record is still there")
	}
}
