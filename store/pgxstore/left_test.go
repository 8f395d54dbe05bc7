package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// gap stops a statement after it was admitted and before it is sent, or a row while it is
// read: it is under way until open is closed.
type gap struct {
	sql     string
	reached chan struct{}
	open    chan struct{}
}

func newGap(id string) *gap {
	return &gap{fmt.Sprintf("insert into charge values ('%s', 1)", id), make(chan struct{}), make(chan struct{})}
}

func (g *gap) wait() {
	close(g.reached)
	<-g.open
}

// await returns when the statement is under way.
func (g *gap) await(tb testing.TB) {
	tb.Helper()
	select {
	case <-g.reached:
	case <-time.After(time.Minute):
		tb.Error("no statement is under way")
	}
}

// RewriteQuery implements [pgx.QueryRewriter].
func (g *gap) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	g.wait()
	return g.sql, nil, nil
}

// Next implements [pgx.CopyFromSource].
func (g *gap) Next() bool {
	g.wait()
	return false
}

func (*gap) Values() ([]any, error) { return nil, nil }

func (*gap) Err() error { return nil }

// Scan implements [sql.Scanner].
func (g *gap) Scan(any) error {
	g.wait()
	return nil
}

const insert = "insert" // which a gap rewrites

// underWay are the calls that a handler may leave behind, each stopped in its gap.
var underWay = map[string]func(context.Context, pgx.Tx, *gap) error{
	"Exec": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		_, err := tx.Exec(ctx, insert, g)
		return err
	},
	"Query": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		rows, err := tx.Query(ctx, insert, g)
		rows.Close()
		return errors.Join(err, rows.Err())
	},
	"QueryRow": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		g.sql += " returning 1"
		return tx.QueryRow(ctx, insert, g).Scan(new(int))
	},
	"SendBatch": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		var b pgx.Batch
		b.Queue(insert, g)
		return tx.SendBatch(ctx, &b).Close()
	},
	"CopyFrom": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"charge"}, []string{"id"}, g)
		return err
	},
	"Scan": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		rows, err := tx.Query(ctx, g.sql+" returning 1")
		if err != nil {
			return err
		}
		defer rows.Close()
		rows.Next()
		err = rows.Scan(g)
		for rows.Next() {
		}
		return errors.Join(err, rows.Err())
	},
	"batch results": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		var b pgx.Batch
		b.Queue(g.sql)
		b.Queue("select 1").QueryRow(func(row pgx.Row) error { return row.Scan(g) })
		return tx.SendBatch(ctx, &b).Close()
	},
	"savepoint": func(ctx context.Context, tx pgx.Tx, g *gap) error {
		sp, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := sp.Exec(ctx, insert, g); err != nil {
			return err
		}
		return sp.Commit(ctx)
	},
}

// TestAStatementThatIsLeftBehind: a handler returns while its goroutine is in the middle of a
// statement. That statement takes no effect, neither by itself nor in the operation that comes
// next: the connection is closed and never used again.
func TestAStatementThatIsLeftBehind(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	for call, run := range underWay {
		for _, first := range []bool{false, true} {
			for _, failure := range []error{nil, errors.New("does not wait"), &once.Failure{Code: "no"}} {
				name := fmt.Sprintf("%s/first %v/%T", call, first, failure)
				t.Run(name, func(t *testing.T) {
					leaveBehind(t, openOn(t, pool.Config().ConnString()), run, once.Operation{Scope: "s", Key: name, Attempt: attempt(first)}, failure)
				})
			}
		}
	}
}

func leaveBehind(t *testing.T, pool *pgxpool.Pool, run func(context.Context, pgx.Tx, *gap) error, op once.Operation, failure error) {
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	g, done := newGap("left "+op.Key), make(chan error, 1)
	var used *pgx.Conn
	_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
		used = tx.Conn()
		go func() { done <- run(context.WithoutCancel(ctx), tx, g) }()
		g.await(t)
		return 1, failure
	})
	if once.EffectOf(err) != once.EffectNotApplied && !errors.As(err, new(*once.Failure)) {
		t.Errorf("the operation that did not wait: %v", err)
	}
	next := "next " + op.Key
	_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: next}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
		if tx.Conn() == used {
			t.Error("the next operation has the same connection")
		}
		close(g.open) // now, inside of the next operation, it goes on
		<-done        // with an error, unless all answers were there
		return insertCharge(next)(ctx, tx)
	})
	if err != nil {
		t.Error("the next operation:", err)
	}
	if n := count(t, pool, "select count(*) from charge where id = $1", "left "+op.Key); n != 0 {
		t.Error("a statement has outlived its transaction")
	}
	if n := count(t, pool, "select count(*) from charge where id = $1", next); n != 1 {
		t.Errorf("%d effects of the next operation", n)
	}
	op.Wait = time.Minute // for the server to see the end of the connection
	if _, err := once.Do(t.Context(), e, op, insertCharge(op.Key)); err != nil && !errors.As(err, new(*once.Failure)) {
		t.Error("a retry:", err)
	}
}

// TestAJoinThatLeavesAStatementBehind: a transaction does not commit, the caller's or the engine's, because what the join has written could not be undone.
func TestAJoinThatLeavesAStatementBehind(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
	for call, run := range underWay {
		for _, failure := range []error{nil, errors.New("does not wait"), &once.Failure{Code: "no"}} {
			for caller, within := range map[string]func(func(context.Context, pgx.Tx) error) error{
				"a handler": func(fn func(context.Context, pgx.Tx) error) error {
					_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, tx pgx.Tx) (int, error) {
						return 1, fn(ctx, tx)
					})
					return err
				},
				"another transaction": func(fn func(context.Context, pgx.Tx) error) error {
					return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return fn(t.Context(), tx) })
				},
			} {
				t.Run(fmt.Sprintf("%s/%T/%s", call, failure, caller), func(t *testing.T) {
					g, done := newGap("left"), make(chan error, 1)
					err := within(func(ctx context.Context, tx pgx.Tx) error {
						_, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: once.NewKey()}, func(ctx context.Context, tx pgx.Tx) (int, error) {
							_, err := tx.Exec(ctx, "insert into charge values ('joined', 1)")
							go func() { done <- run(context.WithoutCancel(ctx), tx, g) }()
							g.await(t)
							return 1, errors.Join(err, failure)
						})
						if once.EffectOf(err) != once.EffectNotApplied {
							t.Errorf("the join: %v", err)
						}
						close(g.open)
						<-done
						return nil // swallowed
					})
					if err == nil {
						t.Error("the caller has committed")
					}
					if n := count(t, pool, "select count(*) from charge") + count(t, pool, "select count(*) from once_operation"); n != 0 {
						t.Errorf("%d rows", n)
					}
				})
			}
		}
	}
}

// TestTwoGoroutinesInOneTransaction: the second one is refused, and what the first one has done
// is not committed, also if the handler says nothing of it.
func TestTwoGoroutinesInOneTransaction(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for call, run := range underWay {
		g, done := newGap("left"), make(chan error, 1)
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: call}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			go func() { done <- run(ctx, tx, g) }()
			g.await(t)
			_, err := tx.Exec(ctx, "select 1")
			if store.KindOf(err) != store.KindMisused {
				t.Errorf("%s: the second one: %v", call, err)
			}
			close(g.open)
			<-done
			return 1, nil // swallowed
		})
		if once.CodeOf(err) != once.CodeMisuse || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges", n)
	}
}

// TestATimeoutHandlerInside of the middleware returns while the handler goes on. That neither
// ends the process nor leaves anything of the handler behind.
func TestATimeoutHandlerInside(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 2 })
	interrupted := make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		tx, ctx := oncehttp.Tx[pgx.Tx](r.Context()), context.WithoutCancel(r.Context())
		for n := 0; ; n++ {
			if _, err := tx.Exec(ctx, fmt.Sprintf("insert into charge values ($1, %d)", n%50), once.NewKey()); err != nil {
				interrupted <- struct{}{}
				return
			}
		}
	})
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	server := httptest.NewServer(oncehttp.Middleware(e, oncehttp.Config{Principal: func(*http.Request) string { return "p" }})(
		http.TimeoutHandler(handler, 5*time.Millisecond, "too slow")))
	defer server.Close()
	const requests = 200
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range requests / 4 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Idempotency-Key", once.NewKey())
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_ = res.Body.Close()
				if res.StatusCode < 500 {
					t.Errorf("status %d", res.StatusCode)
				}
			}
		})
	}
	for range requests { // each handler ends by an error of its statement, and may begin only when its client has gone
		select {
		case <-interrupted:
		case <-time.After(time.Minute):
			t.Fatal("a handler was not interrupted")
		}
	}
	clients.Wait()
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges of handlers that were too slow", n)
	}
}
