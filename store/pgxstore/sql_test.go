package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// pay takes one from an account. It locks the account's row.
func pay(account int) store.Statement {
	return store.Statement{SQL: "update account set balance = balance - 1 where id = $1", Args: []any{account}, Rows: 1, Locks: fmt.Sprintf("account/%03d", account)}
}

// TestRoundTripsOfTheSQLPlane counts on the wire, on a connection that knows the statements.
func TestRoundTripsOfTheSQLPlane(t *testing.T) {
	for _, mode := range []string{"prepared", "traced"} {
		t.Run(mode, func(t *testing.T) { roundTripsOfTheSQLPlane(t, modes[mode]) })
	}
}

func roundTripsOfTheSQLPlane(t *testing.T, configure func(*pgxpool.Config)) {
	t.Parallel()
	var wire faultnet.Wire
	pool := openPool(t, configure, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = wire.DialContext
	})
	s := pgxstore.New(pool, pgxstore.Config{})
	e := engineOn(pool)
	do := func(first bool, appended int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: once.NewKey(), Attempt: attempt(first)}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				for i := range appended {
					if err := s.On(tx).Append(ctx, pay(9-i)); err != nil {
						return 0, err
					}
				}
				_, err := s.On(tx).Exec(ctx, pay(10))
				return 1, err
			})
			return err
		}
	}
	within := func(ctx context.Context) error {
		return s.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
			return errors.Join(r.Append(ctx, pay(1)), r.Append(ctx, pay(2)))
		})
	}
	joins := func(ctx context.Context) error {
		_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			r, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				return 1, s.On(tx).Append(ctx, pay(1))
			})
			return r.Value, err
		})
		return err
	}
	leased := running("leased")
	swap(t, s, leased)
	for _, c := range []struct {
		name string
		want int64
		run  func(context.Context) error
	}{
		{"Do", 3, do(false, 0)},
		{"Do, three appended", 3, do(false, 3)},
		{"first attempt, three appended", 2, do(true, 3)},
		{"Join in Do, one appended", 4, joins},
		{"Within, two appended", 2, within},
		{"Exec on the pool", 1, func(ctx context.Context) error { _, err := s.Pool().Exec(ctx, pay(3)); return err }},
		{"Query on the pool", 1, func(ctx context.Context) error {
			return s.Pool().Query(ctx, store.Statement{SQL: "select id from account"}, func(sqlplane.Row) error { return nil })
		}},
		{"Swap", 1, func(ctx context.Context) error {
			_, err := s.Swap(ctx, running(once.NewKey()))
			return err
		}},
		{"Renew", 1, func(ctx context.Context) error {
			renewed, err := s.Unwrap().(store.Renewer).Renew(ctx, []store.Hold{holdOf(leased)}, time.Hour)
			if len(renewed) != 1 {
				t.Errorf("%d renewed", len(renewed))
			}
			return err
		}},
		{"Unfinished", 1, func(ctx context.Context) error { _, _, err := s.Unfinished(ctx, upkeep.Listing{Limit: 10}); return err }},
		{"Backlog", 1, func(ctx context.Context) error { _, err := s.Backlog(ctx); return err }},
	} {
		var got int64
		for range 3 { // the first times prepare statements
			before := wire.Counts().RoundTrips
			if err := c.run(t.Context()); err != nil {
				t.Fatal(c.name, err)
			}
			if _, err := pool.Exec(t.Context(), ""); err != nil { // waits until the connection is free again
				t.Fatal(err)
			}
			got = wire.Counts().RoundTrips - before - 1
		}
		if got != c.want {
			t.Errorf("%s: %d round trips, want %d", c.name, got, c.want)
		}
	}
}

// TestAppendedInOppositeOrder: transactions that append statements on the same rows, in whatever order
// and through Joins, never deadlock.
func TestAppendedInOppositeOrder(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 8 })
	s := pgxstore.New(pool, pgxstore.Config{})
	e := once.New(s, once.Config{Runs: 1})
	const rows, rounds = 8, 25
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			for range rounds {
				_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, tx pgx.Tx) (int, error) {
					for i := range rows {
						account := 1 + i
						if worker%2 == 0 {
							account = rows - i
						}
						if worker%3 != 0 {
							if err := s.On(tx).Append(ctx, pay(account)); err != nil {
								return 0, err
							}
							continue
						}
						_, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, tx pgx.Tx) (int, error) {
							return 1, s.On(tx).Append(ctx, pay(account))
						})
						if err != nil {
							return 0, err
						}
					}
					return 1, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := count(t, pool, "select 1000000 - balance from account where id = 3"); n != 6*rounds {
		t.Errorf("%d payments, want %d", n, 6*rounds)
	}
}

// TestAppendedInAJoin travels with the commit around it, and not at all if the join is rolled back.
func TestAppendedInAJoin(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	s, e := pgxstore.New(pool, pgxstore.Config{}), engineOn(pool)
	insert := func(id, locks string) store.Statement {
		return store.Statement{SQL: "insert into charge select $1, count(*) from charge", Args: []any{id}, Rows: 1, Locks: locks}
	}
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "outer"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		for _, j := range []struct {
			id  string
			err error
		}{{"c", nil}, {"b", errors.New("failed")}, {"a", nil}} {
			_, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: j.id}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				return 1, errors.Join(s.On(tx).Append(ctx, insert(j.id, j.id)), j.err)
			})
			if (err == nil) != (j.err == nil) {
				t.Error(err)
			}
		}
		return 1, s.On(tx).Append(ctx, insert("b2", "b2"))
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), "select id from charge order by amount")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := []string{"a", "b2", "c"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%q, want %q, %v", ids, want, err)
	}
}

// TestATailAfterAMigration: an appended statement that was prepared before fails at most once, and
// nothing is applied without it.
func TestATailAfterAMigration(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	s, e := pgxstore.New(pool, pgxstore.Config{}), engineOn(pool)
	if _, err := pool.Exec(t.Context(), "create table note (id serial, text text)"); err != nil {
		t.Fatal(err)
	}
	effects := 0
	do := func(sql string, args ...any) error {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			return 1, s.On(tx).Append(ctx, store.Statement{SQL: sql, Args: args})
		})
		if err == nil {
			effects++
		} else if once.EffectOf(err) != once.EffectNotApplied {
			t.Error(err)
		}
		return err
	}
	const returning, typed = "insert into note (text) values ('a') returning *", "insert into note (text) values ($1)"
	for _, change := range []string{"select", "alter table note add column more text", "alter table note alter column text type int using 0"} {
		if _, err := pool.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 3 {
			if do(typed, "1") != nil {
				failed++
			}
		}
		if failed > 1 {
			t.Errorf("%s: failed %d times", change, failed)
		}
		if change == "alter table note add column more text" || change == "select" {
			if err := do(returning); err != nil {
				t.Errorf("%s: %v", change, err)
			}
			if err := do(typed, "1"); err != nil { // prepares it on the connection that the next change meets
				t.Errorf("%s: %v", change, err)
			}
		}
	}
	if n := count(t, pool, "select count(*) from note"); n != effects {
		t.Errorf("%d effects of %d operations", n, effects)
	}
	if n := count(t, pool, "select count(*) from once_operation"); n != effects {
		t.Errorf("%d records of %d operations", n, effects)
	}
}

// TestAStatementOfThePoolIsLost: it is applied, and the answer does not come; or it does not get there.
func TestAStatementOfThePoolIsLost(t *testing.T) {
	for _, mode := range []string{"prepared", "exec", "simple"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			direct := openPool(t)
			server := direct.Config().ConnConfig
			proxy, err := faultnet.Listen(fmt.Sprintf("%s:%d", server.Host, server.Port))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = proxy.Close() }()
			cfg := direct.Config()
			cfg.MaxConns = 1
			modes[mode](cfg)
			cfg.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return proxy.DialContext(ctx, network, "")
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			r := pgxstore.New(pool, pgxstore.Config{}).Pool()
			insert := store.Statement{SQL: "insert into charge values ($1, 1)", Args: []any{"warm"}, Rows: 1}
			if _, err := r.Exec(t.Context(), insert); err != nil {
				t.Fatal(err)
			}
			insert.Args = []any{"lost"}
			proxy.Arm(faultnet.SwallowAnswer("lost", faultnet.PostgresIdle))
			if _, err := r.Exec(t.Context(), insert); store.KindOf(err) != store.KindLost {
				t.Errorf("%v, want %s", err, store.KindLost)
			}
			proxy.Disarm()
			if n := count(t, direct, "select count(*) from charge where id = 'lost'"); n != 1 {
				t.Errorf("%d effects", n)
			}
			if _, err := r.Exec(t.Context(), insert); !errors.Is(err, sqlplane.ErrDuplicate) {
				t.Errorf("%v, want a duplicate", err)
			}
			insert.Args = []any{make(chan int)}
			if _, err := r.Exec(t.Context(), insert); store.KindOf(err) != store.KindOther || err == nil {
				t.Errorf("what cannot be sent: %v", err)
			}
		})
	}
}
