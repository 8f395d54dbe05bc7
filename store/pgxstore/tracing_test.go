package pgxstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// recorder is a tracer that holds every end against its start.
type recorder struct {
	mu       sync.Mutex
	calls    int
	open     map[int]string // started and not ended
	mistakes []string
	queries  []string // those of the handler, with their ends
	batched  []string // those of batches of which one is the handler's
	prepared map[string]int
}

type (
	handlersKey struct{} // a value of the handler's context
	callKey     struct{}
	call        struct {
		id      int
		sql     string
		args    []any
		left    int // queries of a batch
		failed  bool
		queries []string
	}
)

// mine marks statements of the handler.
const mine = "/* mine */ "

func (r *recorder) start(ctx context.Context, sql string, args []any, n int) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasPrefix(sql, mine) && ctx.Value(handlersKey{}) == nil {
		r.mistakes = append(r.mistakes, "not the handler's context: "+sql)
	}
	r.calls++
	r.open[r.calls] = sql
	return context.WithValue(ctx, callKey{}, &call{id: r.calls, sql: sql, args: args, left: n})
}

// end returns the call that ctx is of, or nil.
func (r *recorder) end(ctx context.Context, what string) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil || r.open[c.id] == "" {
		r.mistakes = append(r.mistakes, fmt.Sprintf("%s ends what is not open: %+v", what, c))
		return nil
	}
	delete(r.open, c.id)
	return c
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return r.start(ctx, cmp.Or(d.SQL, "-"), d.Args, 0)
}

func (r *recorder) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.end(ctx, "a query"); c != nil && strings.HasPrefix(c.sql, mine) {
		r.queries = append(r.queries, fmt.Sprintf("%s %v: %s %s", strings.TrimPrefix(c.sql, mine), c.args, d.CommandTag, reason(d.Err)))
	}
}

func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	return r.start(ctx, "batch", nil, d.Batch.Len())
}

func (r *recorder) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil || r.open[c.id] != "batch" || c.left == 0 || c.failed || d.ReadStartTime.IsZero() {
		r.mistakes = append(r.mistakes, fmt.Sprintf("%s, read since %v, is none of %+v", d.SQL, d.ReadStartTime, c))
		return
	}
	c.left--
	c.failed = d.Err != nil
	c.queries = append(c.queries, fmt.Sprintf("%s %v: %s %s", strings.Fields(strings.TrimPrefix(d.SQL, mine))[0], len(d.Args), d.CommandTag, reason(d.Err)))
	if strings.HasPrefix(d.SQL, mine) {
		c.sql = mine
	}
}

func (r *recorder) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.end(ctx, "a batch")
	if c == nil {
		return
	}
	if c.failed && d.Err == nil || d.Err == nil && c.left > 0 {
		r.mistakes = append(r.mistakes, fmt.Sprintf("a batch ends with %d queries left, failed %t: %v", c.left, c.failed, d.Err))
	}
	if c.sql == mine || c.failed {
		r.batched = append(append(r.batched, c.queries...), "end: "+reason(d.Err))
	}
}

func (r *recorder) TracePrepareStart(ctx context.Context, _ *pgx.Conn, d pgx.TracePrepareStartData) context.Context {
	r.mu.Lock()
	r.prepared[d.SQL]++
	r.mu.Unlock()
	return r.start(ctx, "prepare", nil, 0)
}

func (r *recorder) TracePrepareEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareEndData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(ctx, "a prepare")
}

// reason is what does not depend on who has sent the statement.
func reason(err error) string {
	if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) {
		return pe.Code
	}
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "late"
	}
	return "failed"
}

// check fails the test if starts and ends do not match. A rollback that no caller waits for
// may still be under way.
func (r *recorder) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for end := time.Now().Add(hang); len(r.open) > 0 && time.Now().Before(end); r.mu.Lock() {
		r.mu.Unlock()
		<-time.After(time.Millisecond)
	}
	if len(r.mistakes) > 0 || len(r.open) > 0 {
		t.Errorf("mistakes %q, not ended: %q", r.mistakes, r.open)
	}
}

// recorded returns a pool with a recorder.
func recorded(t *testing.T, configure ...func(*pgxpool.Config)) (*pgxpool.Pool, *recorder) {
	t.Helper()
	r := &recorder{open: map[int]string{}, prepared: map[string]int{}}
	configure = append(configure, func(c *pgxpool.Config) { c.ConnConfig.Tracer = r })
	pool := openPool(t, configure...)
	r.queries = nil
	return pool, r
}

// tracedHandlers begin with one statement, which is as a tracer sees it.
var tracedHandlers = map[string]func(ctx context.Context, tx pgx.Tx, id string) error{
	"exec": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, mine+"insert into charge values ($1, 1)", id)
		return err
	},
	"two": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, mine+"insert into charge values ($1, 1)", id)
		_, again := tx.Exec(ctx, mine+"update charge set amount = 2 where id = $1", id)
		return errors.Join(err, again)
	},
	"no arguments": func(ctx context.Context, tx pgx.Tx, _ string) error {
		_, err := tx.Exec(ctx, mine+"select 1")
		return err
	},
	"rows": func(ctx context.Context, tx pgx.Tx, _ string) error {
		rows, err := tx.Query(ctx, mine+"select g from generate_series(1, $1::int) g", 5)
		if err != nil {
			return err
		}
		for rows.Next() {
		}
		return rows.Err()
	},
	"rows left early": func(ctx context.Context, tx pgx.Tx, _ string) error {
		rows, err := tx.Query(ctx, mine+"select g from generate_series(1, $1::int) g", 5)
		if err != nil {
			return err
		}
		rows.Next()
		rows.Close()
		rows.Close()
		return rows.Err()
	},
	"row": func(ctx context.Context, tx pgx.Tx, id string) error {
		return tx.QueryRow(ctx, mine+"insert into charge values ($1, 1) returning amount", id).Scan(new(int))
	},
	"no row": func(ctx context.Context, tx pgx.Tx, id string) error {
		if err := tx.QueryRow(ctx, mine+"select amount from charge where id = $1", id).Scan(new(int)); !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("a row: %w", err)
		}
		return nil
	},
	"division": func(ctx context.Context, tx pgx.Tx, _ string) error {
		_, err := tx.Exec(ctx, mine+"select 1 / $1::int", 0)
		return err
	},
	"division in a row": func(ctx context.Context, tx pgx.Tx, _ string) error {
		return tx.QueryRow(ctx, mine+"select 1 / (g - 2) from generate_series(1, $1::int) g", 5).Scan(new(chan int))
	},
	"division in rows": func(ctx context.Context, tx pgx.Tx, _ string) error {
		rows, _ := tx.Query(ctx, mine+"select 1 / (g - 2) from generate_series(1, $1::int) g", 5)
		_, err := pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	},
	"a type that does not fit": func(ctx context.Context, tx pgx.Tx, _ string) error {
		return tx.QueryRow(ctx, mine+"select $1::text", "x").Scan(new(int))
	},
	"syntax": func(ctx context.Context, tx pgx.Tx, _ string) error {
		_, err := tx.Exec(ctx, mine+"inzert $1", 1)
		return err
	},
	"argument": func(ctx context.Context, tx pgx.Tx, _ string) error {
		_, err := tx.Exec(ctx, mine+"select $1::int", make(chan<- int)) // prints as nothing that changes
		return err
	},
	"lost connection": func(ctx context.Context, tx pgx.Tx, _ string) error {
		_, err := tx.Exec(ctx, mine+"select pg_terminate_backend(pg_backend_pid(), $1::bigint)", 0)
		return err
	},
	"lost connection in rows": func(ctx context.Context, tx pgx.Tx, _ string) error {
		rows, _ := tx.Query(ctx, mine+"select pg_terminate_backend(pg_backend_pid(), $1::bigint)", 0)
		_, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		return err
	},
	"cancelled before": func(ctx context.Context, tx pgx.Tx, _ string) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err := tx.Exec(ctx, mine+"select $1::int", 1)
		return err
	},
	"cancelled before rows": func(ctx context.Context, tx pgx.Tx, _ string) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		rows, _ := tx.Query(ctx, mine+"select $1::int", 1)
		_, err := pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	},
	"cancelled meanwhile": func(ctx context.Context, tx pgx.Tx, _ string) error {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := tx.Exec(ctx, mine+"select pg_sleep($1)", 60)
		return err
	},
}

// TestATracerSeesTheFirstStatement of a first attempt as it sees that of any other operation,
// which pgx shows itself: once, under the handler's context, with its end.
func TestATracerSeesTheFirstStatement(t *testing.T) {
	t.Parallel()
	for name, run := range tracedHandlers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, seen := recorded(t)
			e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
			var want []string
			for _, first := range []bool{false, true, true} { // the third finds it prepared
				id := fmt.Sprint("k", len(want))
				_, _ = once.Do(t.Context(), e, once.Operation{Scope: "seen", Key: once.NewKey(), Attempt: attempt(first)}, func(ctx context.Context, tx pgx.Tx) (int, error) {
					return 1, run(context.WithValue(ctx, handlersKey{}, true), tx, "k")
				})
				seen.check(t)
				got := seen.queries
				seen.queries = nil
				if want == nil {
					want = got
				}
				if len(got) == 0 || !slices.Equal(normal(got), normal(want)) {
					t.Errorf("first %t: %q, want %q", first, got, want)
				}
				_, err := pool.Exec(t.Context(), "delete from charge")
				if err != nil {
					t.Fatal(id, err)
				}
			}
		})
	}
}

// normal cuts the addresses of arguments that cannot be printed.
func normal(queries []string) []string {
	queries = slices.Clone(queries)
	for i, q := range queries {
		if before, after, found := strings.Cut(q, "[0x"); found {
			_, after, _ = strings.Cut(after, "]")
			queries[i] = before + "[]" + after
		}
	}
	return queries
}

// TestATracerSeesWhatAFirstAttemptFinds: the claim of another operation, a record, and a
// connection that broke while it was idle.
func TestATracerSeesWhatAFirstAttemptFinds(t *testing.T) {
	t.Parallel()
	pool, seen := recorded(t, func(c *pgxpool.Config) { c.MaxConns = 2 })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 2})
	elsewhere := func() *once.Engine[pgx.Tx] {
		return once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 2})
	}
	run := func(e *once.Engine[pgx.Tx], key string, during func()) error {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "found", Key: key, Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
			_, err := tx.Exec(context.WithValue(ctx, handlersKey{}, true), mine+"insert into charge values ($1, 1)", once.NewKey())
			if during != nil {
				during()
			}
			return charge{}, err
		})
		return err
	}
	told := func(what string, want ...string) {
		t.Helper()
		seen.check(t)
		var ends []string
		for _, q := range seen.queries {
			_, end, _ := strings.Cut(q, "]: ")
			ends = append(ends, end)
		}
		if !slices.Equal(ends, want) {
			t.Errorf("%s: %q, want %q", what, ends, want)
		}
		seen.queries, seen.batched = nil, nil
	}
	charges := func(want int) {
		t.Helper()
		if n := count(t, pool, "select count(*) from charge"); n != want {
			t.Errorf("%d charges, want %d", n, want)
		}
	}
	err := run(e, "k", func() {
		told("executing", "INSERT 0 1 ok")
		if err := run(elsewhere(), "k", nil); once.CodeOf(err) != once.CodeInFlight {
			t.Error(err)
		}
		// The claim is refused by a division by zero, and the statement is skipped.
		if !slices.Contains(seen.batched, "end: 22012") {
			t.Errorf("the claim of another operation: %q", seen.batched)
		}
		told("held elsewhere", " 22012")
	})
	if err != nil {
		t.Error(err)
	}
	charges(1)
	seen.queries = nil
	if err := run(elsewhere(), "k", nil); err != nil {
		t.Error(err)
	}
	told("done: executed and undone", "INSERT 0 1 ok")
	charges(1)

	other, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig.Copy())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	if _, err := other.Exec(t.Context(), "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	if err := run(once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 4}), "broken", nil); err != nil {
		t.Error(err)
	}
	seen.check(t)
	if n := len(seen.queries); n < 2 || !strings.HasSuffix(seen.queries[n-1], " ok") || strings.HasSuffix(seen.queries[0], " ok") {
		t.Errorf("connections that broke while they were idle: %q", seen.queries)
	}
	charges(2)
}

// TestATracerSeesEachPrepareOnce for a connection. What the handler drops on the connection is
// prepared anew.
func TestATracerSeesEachPrepareOnce(t *testing.T) {
	t.Parallel()
	pool, seen := recorded(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := engineOn(pool)
	runs := 0
	do := func(first bool, after func(tx pgx.Tx) error) error {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "prepared", Key: once.NewKey(), Attempt: attempt(first)}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			runs++
			_, err := tx.Exec(context.WithValue(ctx, handlersKey{}, true), mine+"insert into charge values ($1, 1)", once.NewKey())
			return 1, errors.Join(err, after(tx))
		})
		return err
	}
	nothing := func(pgx.Tx) error { return nil }
	for range 3 {
		for _, first := range []bool{true, false} {
			if err := do(first, nothing); err != nil {
				t.Error(err)
			}
		}
	}
	for sql, n := range seen.prepared {
		if n > 2 || n > 1 && !strings.HasPrefix(sql, mine) { // under a name of ours, and of pgx's
			t.Errorf("prepared %d times: %s", n, sql)
		}
	}
	if len(seen.prepared) < 4 {
		t.Errorf("vacuous: %v", seen.prepared)
	}
	runs = 0
	for range 3 {
		for _, first := range []bool{true, false} {
			if err := do(first, func(tx pgx.Tx) error { return tx.Conn().DeallocateAll(t.Context()) }); err != nil {
				t.Error(err)
			}
		}
	}
	if runs > 7 { // only the handler's statement of a first attempt, which pgx does not know, costs a second run, once
		t.Errorf("%d runs of 6 handlers", runs)
	}
	seen.check(t)
}

// TestATracerSeesABatch with the record first, and of a batch that fails what was answered.
func TestATracerSeesABatch(t *testing.T) {
	t.Parallel()
	pool, seen := recorded(t)
	run := func(key, id string) error {
		_, err := once.DoBatch(t.Context(), engineOn(pool), once.Operation{Scope: "batch", Key: key}, func(b *once.Batch) (int, error) {
			b.Exec(mine+"insert into charge values ($1, 1)", id)
			b.Exec(mine+"update charge set amount = 2 where id = @id", pgx.NamedArgs{"id": id})
			return 1, nil
		})
		return err
	}
	for _, c := range []struct {
		name, key, id string
		code          once.Code
		want          []string
	}{
		{"executed", "k", "a", "", []string{"insert 10: INSERT 0 1 ok", "insert 1: INSERT 0 1 ok", "update 1: UPDATE 1 ok", "end: ok"}},
		{"replayed", "k", "b", "", []string{"insert 10:  23505", "end: 23505"}},
		{"failed", "l", "a", once.CodeFailed, []string{"insert 10: INSERT 0 1 ok", "insert 1:  23505", "end: 23505"}},
	} {
		seen.batched = nil
		if err := run(c.key, c.id); once.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
		seen.check(t)
		if !slices.Equal(seen.batched, c.want) {
			t.Errorf("%s: %q, want %q", c.name, seen.batched, c.want)
		}
	}
}
