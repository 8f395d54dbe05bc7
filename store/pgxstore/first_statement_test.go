package pgxstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestRowsAreThereDespiteAnError: pgx allows to ignore the error of Query, and its
// documentation does so.
func TestRowsAreThereDespiteAnError(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
	ids := func(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]string, error) {
		rows, _ := tx.Query(ctx, sql, args...)
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	insert := func(ctx context.Context, tx pgx.Tx) ([]string, error) {
		return ids(ctx, tx, "insert into charge values ($1, 1) returning id", "there")
	}
	for _, c := range []struct {
		name string
		code once.Code
		run  func(ctx context.Context, tx pgx.Tx) ([]string, error)
	}{
		{"none", "", insert},
		{"of the server", once.CodeFailed, insert},
		{"of the client", once.CodeFailed, func(ctx context.Context, tx pgx.Tx) ([]string, error) {
			return ids(ctx, tx, "select $1::int", make(chan int))
		}},
		{"context", once.CodeFailed, func(ctx context.Context, tx pgx.Tx) ([]string, error) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return insert(ctx, tx)
		}},
		{"refused", once.CodeFailed, func(ctx context.Context, tx pgx.Tx) ([]string, error) {
			return ids(ctx, tx, "commit")
		}},
	} {
		for _, first := range []bool{true, false} {
			if c.name == "none" && !first {
				continue // it is there
			}
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "ignored", Key: once.NewKey(), Attempt: attempt(first)}, c.run)
			if once.CodeOf(err) != c.code {
				t.Errorf("%s (first attempt: %t): %v", c.name, first, err)
			}
		}
	}
	holds, release, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	op := once.Operation{Scope: "ignored", Key: once.NewKey()}
	go func() {
		_, err := once.Do(context.Background(), engineOn(pool), op, func(context.Context, pgx.Tx) (int, error) {
			close(holds)
			<-release
			return 1, nil
		})
		held <- err
	}()
	<-holds
	op.Attempt.Number = 1
	if _, err := once.Do(t.Context(), e, op, insert); once.CodeOf(err) != once.CodeInFlight {
		t.Error("claimed elsewhere:", err)
	}
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// TestAFirstStatementIsLikeAnyOther: whether it travels with the claim or not, pgx.Rows are
// those of pgx.
func TestAFirstStatementIsLikeAnyOther(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := engineOn(pool)
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, tx pgx.Tx) (any, error)
	}{
		{"columns of a write", func(ctx context.Context, tx pgx.Tx) (any, error) {
			rows, err := tx.Query(ctx, "update account set balance = 5 where id = $1", 1)
			if err != nil {
				return nil, err
			}
			rows.Close()
			return fmt.Sprint(len(rows.FieldDescriptions()), rows.CommandTag()), rows.Err()
		}},
		{"a row without columns", func(ctx context.Context, tx pgx.Tx) (any, error) {
			return nil, tx.QueryRow(ctx, "select from account where id = $1", 1).Scan()
		}},
		{"the connection", func(ctx context.Context, tx pgx.Tx) (any, error) {
			rows, err := tx.Query(ctx, "select $1::int", 1)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			return rows.Conn() != nil && rows.TypeMap() == rows.Conn().TypeMap(), nil
		}},
		{"a scan that fails ends the rows", func(ctx context.Context, tx pgx.Tx) (any, error) {
			rows, err := tx.Query(ctx, "select $1::text from generate_series(1, 3)", "x")
			if err != nil || !rows.Next() {
				return nil, err
			}
			if err := rows.Scan(new(int)); err == nil {
				return nil, errors.New("scanned")
			}
			_, err = tx.Exec(ctx, "select $1::int", 1)
			return rows.Next(), err
		}},
		{"the isolation level", func(ctx context.Context, tx pgx.Tx) (any, error) {
			var level string
			err := tx.QueryRow(ctx, "select current_setting($1)", "transaction_isolation").Scan(&level)
			return level, err
		}},
	} {
		var said []string
		for _, first := range []bool{false, true} {
			op := once.Operation{Scope: "like", Key: once.NewKey(), Attempt: attempt(first), Isolation: store.Serializable}
			r, err := once.Do(t.Context(), e, op, c.run)
			said = append(said, fmt.Sprint(r.Value, err))
		}
		if said[0] != said[1] {
			t.Errorf("%s: %s, of a first attempt %s", c.name, said[0], said[1])
		}
	}
}

// TestAFirstStatementAfterAMigration fails no more often than with pgx alone, which forgets
// what has failed.
func TestAFirstStatementAfterAMigration(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := engineOn(pool)
	for i, change := range []string{
		"",
		"alter table account add column note text",
		"alter table account alter column note type int using 0",
		"alter table account alter column note type text",
	} {
		if _, err := pool.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		for j, sql := range []string{
			"update account set note = $2 where id = $1",
			"select * from account where id = $1",
		} {
			if i == 0 && j == 0 {
				continue // there is no such column yet
			}
			args := []any{1, "1"}[:2-j]
			failed := 0
			for range 3 {
				_, err := once.Do(t.Context(), e, once.Operation{Scope: "migrated", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
					rows, err := tx.Query(ctx, sql, args...)
					if err != nil {
						return 0, err
					}
					rows.Close()
					return 1, rows.Err()
				})
				if err != nil {
					failed++
					t.Log(err)
				}
			}
			if failed > 1-j {
				t.Errorf("%q, then %q: failed %d times", change, sql, failed)
			}
		}
	}
	for i := range 2 {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "migrated", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, insertCharge(fmt.Sprint(i)))
		if err != nil {
			t.Error("after DeallocateAll:", err)
		}
		if err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
			return c.Conn().DeallocateAll(t.Context())
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// meanwhile does something while it is encoded.
type meanwhile func()

func (m meanwhile) Value() (driver.Value, error) {
	m()
	return int64(1), nil
}

// TestNothingRunsBeforeTheTransactionIsOpen, also while another goroutine opens it, or has failed to.
func TestNothingRunsBeforeTheTransactionIsOpen(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
	errNo := errors.New("no")
	for name, run := range map[string]func(ctx context.Context, tx pgx.Tx, id string){
		"a panic": func(ctx context.Context, tx pgx.Tx, id string) {
			func() {
				defer func() { _ = recover() }()
				_, _ = tx.Exec(ctx, "select $1::int", meanwhile(func() { panic("no") }))
			}()
			_, _ = tx.Exec(ctx, "insert into charge values ($1, 1)", id)
		},
		"at the same time": func(ctx context.Context, tx pgx.Tx, id string) {
			_, _ = tx.Exec(ctx, "select $1::int", meanwhile(func() {
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = tx.Exec(ctx, "insert into charge values ($1, 1)", id)
				}()
				<-done
			}))
		},
	} {
		for _, ends := range []error{errNo, nil} {
			id := fmt.Sprint(name, ends)
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "before", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				run(ctx, tx, id)
				return 1, ends
			})
			if once.EffectOf(err) != once.EffectNotApplied || err == nil {
				t.Errorf("%s: %v", id, err)
			}
			if n := count(t, pool, "select count(*) from charge where id = $1", id); n != 0 {
				t.Errorf("%s: %d charges", id, n)
			}
		}
	}
}

// TestNothingRunsWithoutATransaction: a handler whose transaction could not be opened, and who
// does not look, must not write without one.
func TestNothingRunsWithoutATransaction(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e, ran := engineOn(pool), false
	if _, err := once.Do(t.Context(), e, once.Operation{Scope: "without", Key: once.NewKey()}, func(context.Context, pgx.Tx) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err) // a store asks once whether the server keeps claims
	}
	if _, err := pool.Exec(t.Context(), "alter function pg_try_advisory_xact_lock(bigint) rename to gone"); err != nil {
		t.Fatal(err)
	}
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "without", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		ran = true
		_, _ = tx.Exec(ctx, "insert into charge values ($1, 1)", "tx")
		_, _ = tx.Conn().Exec(ctx, "insert into charge values ($1, 1)", "conn")
		return 1, nil
	})
	if once.EffectOf(err) != once.EffectNotApplied || err == nil || !ran {
		t.Errorf("ran: %t: %v", ran, err)
	}
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges", n)
	}
}

// TestAFailureOfWhomTheClaimWasRefused is not kept: it was made of the refusal.
func TestAFailureOfWhomTheClaimWasRefused(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	op := once.Operation{Scope: "refused", Key: once.NewKey()}
	holds, release, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := once.Do(context.Background(), engineOn(pool), op, func(context.Context, pgx.Tx) (charge, error) {
			close(holds)
			<-release
			return charge{}, errors.New("no")
		})
		held <- err
	}()
	<-holds
	op.Attempt.Number = 1
	ran := 0
	_, err := once.Do(t.Context(), engineOn(pool), op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
		ran++
		c, err := insertCharge("refused")(ctx, tx)
		if ran == 1 {
			close(release)
			<-held
		}
		if err != nil {
			return c, &once.Failure{Code: "declined"}
		}
		return c, nil
	})
	if err != nil || ran != 2 {
		t.Errorf("ran %d times: %v", ran, err)
	}
}

// TestAFirstStatementIsBounded also where it is prepared, which waits for who alters a table.
func TestAFirstStatementIsBounded(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.Background()) }()
	if _, err := other.Exec(t.Context(), "lock table charge in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	for name, bounds := range map[string]store.Timeouts{
		"lock": {Lock: time.Second}, "statement": {Statement: time.Second},
	} {
		for tries := 1; ; tries++ {
			began := time.Now()
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "bounded", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}, Timeouts: bounds}, insertCharge(name))
			if once.CodeOf(err) != once.CodeUnavailable {
				t.Errorf("%s: %v", name, err)
			}
			took := time.Since(began)
			if took < 2*time.Second { // one bound, and not one for each of two steps, which would take longer each time
				break
			}
			if tries == 4 {
				t.Errorf("%s: a first statement waits for %v", name, took)
				break
			}
		}
	}
}

// TestBoundsOfAStep: a transaction that claims nothing, and whose BEGIN travels with its first statement, has each of its bounds. A bound that is not set
// leaves that of the session.
func TestBoundsOfAStep(t *testing.T) {
	t.Parallel()
	s := pgxstore.New(openPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "9s" }), pgxstore.Config{})
	for want, bounds := range map[string]store.Timeouts{
		"7s 5s 3s": {Statement: 7 * time.Second, Lock: 5 * time.Second, Idle: 3 * time.Second},
		"0 9s 3s":  {Idle: 3 * time.Second},
		"7s 9s 0":  {Statement: 7 * time.Second, Lock: 11 * time.Second},
		"0 9s 0":   {},
	} {
		txn, _, err := s.Begin(t.Context(), store.BeginOptions{First: true, Timeouts: bounds})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		const all = "select current_setting('statement_timeout') || $1 || current_setting('lock_timeout') || $1 || current_setting('idle_in_transaction_session_timeout')"
		if err := txn.Tx().QueryRow(t.Context(), all, " ").Scan(&got); err != nil || got != want {
			t.Errorf("the bounds are %s, want %s: %v", got, want, err)
		}
		if err := txn.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// blackHole takes what is written to it, if it is on.
type blackHole struct {
	net.Conn
	on *atomic.Bool
}

func (h blackHole) Write(b []byte) (int, error) {
	if h.on.Load() {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

// TestOpeningForTheConnectionEnds although it has no context.
func TestOpeningForTheConnectionEnds(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	pool := openPool(t, func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return blackHole{conn, &on}, err
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := once.Do(context.Background(), engineOn(pool), once.Operation{Scope: "hole", Key: "k", Attempt: once.Attempt{Number: 1}}, func(_ context.Context, tx pgx.Tx) (int, error) {
			on.Store(true)
			defer on.Store(false)
			tx.LargeObjects() // which uses the connection
			return 1, nil
		})
		done <- err
	}()
	select {
	case err := <-done:
		if once.EffectOf(err) != once.EffectNotApplied || err == nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
	}
}

// TestAFirstStatementThatTheUserHasPrepared is known by a name that only pgx knows.
func TestAFirstStatementThatTheUserHasPrepared(t *testing.T) {
	t.Parallel()
	var wire faultnet.Wire
	pool := openPool(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = wire.DialContext
	})
	e := engineOn(pool)
	if err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Conn().Prepare(t.Context(), "mine", "select $1::int")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var trips int64
	for range 3 {
		before := wire.Counts().RoundTrips
		if _, err := once.Do(t.Context(), e, once.Operation{Scope: "named", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (n int, err error) {
			return n, tx.QueryRow(ctx, "mine", 1).Scan(&n)
		}); err != nil {
			t.Error(err)
		}
		trips = wire.Counts().RoundTrips - before
	}
	if trips != 3 {
		t.Errorf("%d round trips, want 3", trips)
	}
}
