package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// hang only ends a test whose call waits without end.
const hang = 40 * time.Second

// silentModes are pipelines of our own, and those of pgx.
var silentModes = map[string]func(*pgxpool.Config){"prepared": modes["prepared"], "exec": modes["exec"]}

// behindProxy returns a pool whose connections go through a proxy, and one connection that is
// idle in it.
func behindProxy(t *testing.T, configure func(*pgxpool.Config)) (*pgxpool.Pool, *faultnet.Proxy) {
	t.Helper()
	proxy, err := faultnet.Listen(testenv.SharedPostgres(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	pool := openPool(t, configure, func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = proxy.DialContext
		c.MaxConns = 4
	})
	t.Cleanup(func() { _ = proxy.Close() }) // before the pool, whose connections may wait
	return pool, proxy
}

// ended returns the error of a call that must end although its server is silent.
func ended(t *testing.T, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(hang):
		t.Fatal("it waits without end")
		return nil
	}
}

// TestASilentServer: an operation whose server hears everything and answers nothing ends by its
// Timeouts, without a deadline of its caller, and so do those that wait for it.
func TestASilentServer(t *testing.T) {
	testenv.Prove(t)
	timeouts := store.Timeouts{Acquire: 2 * time.Second, Statement: time.Second, Lock: time.Second}
	op := once.Operation{Scope: "s", Key: "k"}
	first, again := op, op
	first.Attempt.Number, again.Attempt.Number = 1, 2
	patient := again
	patient.Timeouts.Acquire = hang / 2
	for mode, configure := range silentModes {
		for name, c := range map[string]struct {
			op   once.Operation
			do   func(context.Context, *once.Engine[pgx.Tx], once.Operation) error
			warm bool // its statements are prepared
		}{
			"begin":              {op, executeCharge, false},
			"look-up":            {again, executeCharge, false},
			"first attempt":      {first, executeCharge, false},
			"warm first attempt": {first, executeCharge, true},
			"no arguments":       {first, executeSelect, false},
			"batch": {op, func(ctx context.Context, e *once.Engine[pgx.Tx], op once.Operation) error {
				_, err := once.DoBatch(ctx, e, op, declare(op.Key))
				return err
			}, false},
		} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel()
				pool, proxy := behindProxy(t, configure)
				e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Timeouts: timeouts, Settle: time.Second})
				if c.warm {
					warm := once.Operation{Scope: "s", Key: "warm", Attempt: once.Attempt{Number: 1}, Timeouts: timeouts}
					warm.Timeouts.Acquire = hang / 2
					if err := c.do(context.Background(), engineOn(pool), warm); err != nil {
						t.Fatal(err)
					}
				}
				trigger := proxy.Arm(faultnet.Withhold(""))
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() {
						err := ended(t, func() error { return c.do(context.Background(), e, c.op) })
						switch code := once.CodeOf(err); {
						case code == once.CodeInFlight:
						case code == once.CodeUnavailable && (once.EffectOf(err) == once.EffectNotApplied || name == "batch"):
						default:
							t.Error(err)
						}
					})
				}
				all.Wait()
				if trigger.Count() == 0 {
					t.Error("vacuous: the server was asked for nothing")
				}
				proxy.Disarm()
				proxy.CutAll() // logins that were not answered
				if err := ended(t, func() error { return c.do(context.Background(), engineOn(pool), patient) }); err != nil {
					t.Errorf("when the server answers again: %v", err)
				}
			})
		}
	}
}

func executeCharge(ctx context.Context, e *once.Engine[pgx.Tx], op once.Operation) error {
	_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "insert into charge (id, amount) values ($1, 1)", op.Key)
		return 1, err
	})
	return err
}

// executeSelect has a statement that does not travel with the claim.
func executeSelect(ctx context.Context, e *once.Engine[pgx.Tx], op once.Operation) error {
	_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "select 1")
		return 1, err
	})
	return err
}

// TestASilentServerIsNamed: what the operator is told, whichever part of a transaction's
// beginning was not answered, and that no second connection is waited for.
func TestASilentServerIsNamed(t *testing.T) {
	for _, c := range []struct {
		pattern string
		ask     store.BeginOptions
	}{
		{"pg_try_advisory_xact_lock", store.BeginOptions{}},
		{"pg_logical_emit_message", store.BeginOptions{Durable: true}},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			t.Parallel()
			pool, proxy := behindProxy(t, func(*pgxpool.Config) {})
			s := pgxstore.New(pool, pgxstore.Config{})
			e := once.New(s, once.Config{})
			if c.ask.Durable {
				if err := executeCharge(context.Background(), e, once.Operation{Scope: "s", Key: "k"}); err != nil {
					t.Fatal(err)
				}
			}
			trigger := proxy.Arm(faultnet.Withhold(c.pattern))
			c.ask.ID, c.ask.Timeouts = store.ID{Scope: "s", Key: "k"}, store.Timeouts{Acquire: 5 * time.Second}
			err := ended(t, func() error {
				_, _, err := s.Begin(context.Background(), c.ask)
				return err
			})
			if store.KindOf(err) != store.KindUnavailable || !strings.Contains(err.Error(), "has not answered within 5s") || !strings.Contains(err.Error(), "Try: ") {
				t.Error(err)
			}
			if trigger.Count() != 1 {
				t.Errorf("%d connections were waited for", trigger.Count())
			}
		})
	}
}

// TestALongFirstStatement is no silent server: only Timeouts.Statement bounds it.
func TestALongFirstStatement(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	pool, _ := behindProxy(t, func(*pgxpool.Config) {})
	sleep := func(timeouts store.Timeouts, seconds int) error {
		op := once.Operation{Scope: "s", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}, Timeouts: timeouts}
		_, err := once.Do(context.Background(), engineOn(pool), op, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, "select pg_sleep($1)", seconds)
			return 1, err
		})
		return err
	}
	if err := sleep(store.Timeouts{Acquire: 4 * time.Second}, 6); err != nil {
		t.Errorf("without a bound: %v", err)
	}
	err := sleep(store.Timeouts{Acquire: 20 * time.Second, Statement: 100 * time.Millisecond}, 60)
	if err == nil || !strings.Contains(err.Error(), "57014") || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server itself says no: %v", err)
	}
}

// TestAStatementOfASilentServer: with a Timeouts.Statement each statement of a handler ends when
// its server falls silent, and nothing was applied.
func TestAStatementOfASilentServer(t *testing.T) {
	testenv.Prove(t)
	const insert = "insert into charge (id, amount) values ($1, 1)"
	for mode, configure := range silentModes {
		for name, statement := range map[string]func(context.Context, pgx.Tx) error{
			"exec": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, insert, "k")
				return err
			},
			"query": func(ctx context.Context, tx pgx.Tx) error {
				rows, err := tx.Query(ctx, insert+" returning id", "k")
				if err == nil {
					rows.Close()
					err = rows.Err()
				}
				return err
			},
			"row": func(ctx context.Context, tx pgx.Tx) error {
				var id string
				return tx.QueryRow(ctx, insert+" returning id", "k").Scan(&id)
			},
			"batch": func(ctx context.Context, tx pgx.Tx) error {
				var b pgx.Batch
				b.Queue(insert, "k")
				br := tx.SendBatch(ctx, &b)
				_, err := br.Exec()
				return errors.Join(err, br.Close())
			},
			"batch, row": func(ctx context.Context, tx pgx.Tx) error {
				var b pgx.Batch
				b.Queue(insert+" returning id", "k")
				br := tx.SendBatch(ctx, &b)
				var id string
				return errors.Join(br.QueryRow().Scan(&id), br.Close())
			},
			"batch, closed": func(ctx context.Context, tx pgx.Tx) error {
				var b pgx.Batch
				b.Queue(insert, "k")
				return tx.SendBatch(ctx, &b).Close()
			},
			"copy": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.CopyFrom(ctx, pgx.Identifier{"charge"}, []string{"id", "amount"}, pgx.CopyFromRows([][]any{{"k", 1}}))
				return err
			},
			"prepare": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Prepare(ctx, "name", insert)
				return err
			},
			"savepoint": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Begin(ctx)
				return err
			},
		} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel()
				pool, proxy := behindProxy(t, configure)
				e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Timeouts: store.Timeouts{Acquire: 2 * time.Second, Statement: time.Second}, Settle: time.Second})
				var trigger *faultnet.Trigger
				var err error
				for tries := 0; trigger == nil && tries < 10; tries++ { // on a busy machine it does not come to the statement in time
					err = ended(t, func() error {
						op := once.Operation{Scope: "s", Key: "k"}
						_, err := once.Do(context.Background(), e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
							if _, err := tx.Exec(ctx, "select $1::int", 1); err != nil {
								return 0, err
							}
							trigger = proxy.Arm(faultnet.Withhold(""))
							return 1, statement(ctx, tx)
						})
						return err
					})
				}
				if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "has not answered") {
					t.Error(err)
				}
				if trigger == nil || trigger.Count() == 0 {
					t.Error("vacuous: the server was asked for nothing")
				}
			})
		}
	}
}
