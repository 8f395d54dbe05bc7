package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestBatchRace: however many batches of one operation meet, on two nodes and beside Do:
// one effect, and all answers are equal.
func TestBatchRace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 8 })
	second, err := pgxpool.NewWithConfig(ctx, pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	seen := new(events)
	nodes := []*once.Engine[pgx.Tx]{
		once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: seen}), once.New(pgxstore.New(second, pgxstore.Config{}), once.Config{Observer: seen}),
	}
	var mismatches, replays, busy atomic.Int64
	levels := []store.Isolation{store.DefaultIsolation, store.RepeatableRead, store.Serializable}
	for round := range 60 {
		key := fmt.Sprint("race-", round)
		answers := make(chan string, 16)
		start := make(chan struct{})
		var group sync.WaitGroup
		for i := range 16 {
			op := once.Operation{Scope: "race", Key: key, Isolation: levels[round%3], Fingerprint: once.FingerprintOf([]byte("one"))}
			if i%8 == 7 {
				op.Fingerprint = once.FingerprintOf([]byte("another"))
			}
			if i%4 < 2 {
				op.Wait = time.Minute
			}
			id := fmt.Sprint(key, "-", i)
			group.Go(func() {
				<-start
				var r once.Result[charge]
				var err error
				if e := nodes[i%2]; i%5 == 0 {
					r, err = once.Do(ctx, e, op, insertCharge(id))
				} else {
					r, err = once.DoBatch(ctx, e, op, declare(id))
				}
				switch code := once.CodeOf(err); {
				case err == nil:
					if r.Replayed {
						replays.Add(1)
					}
					answers <- r.Value.ID
				case code == once.CodeMismatch:
					mismatches.Add(1)
				case code == once.CodeInFlight && op.Wait == 0:
					busy.Add(1)
				case code == once.CodeConflict && op.Isolation == store.Serializable: // with other keys: balance
				default:
					t.Error(err)
				}
			})
		}
		close(start)
		group.Wait()
		close(answers)
		first := ""
		for a := range answers {
			if first == "" {
				first = a
			}
			if a != first {
				t.Errorf("%s: answers %s and %s", key, first, a)
			}
		}
		if n := count(t, pool, "select count(*) from charge where id like $1", key+"-%"); n != 1 && first != "" || first != "" && count(t, pool, "select count(*) from charge where id = $1", first) != 1 {
			t.Errorf("%s: %d effects, answer %s", key, n, first)
		}
	}
	if mismatches.Load() == 0 || replays.Load() == 0 || busy.Load() == 0 {
		t.Errorf("vacuous: %d mismatches, %d replays, %d in flight", mismatches.Load(), replays.Load(), busy.Load())
	}
}

// TestBatchAtABusyKey: the database does not wait for a transaction that holds the claim elsewhere.
func TestBatchAtABusyKey(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	holder, e := engineOn(pool), engineOn(pool)
	op := once.Operation{Scope: "busy", Key: "k"}
	held, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := once.Do(ctx, holder, op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
			close(held)
			<-release
			return insertCharge("holder")(ctx, tx)
		})
		ended <- err
	}()
	<-held
	_, err := once.DoBatch(ctx, e, op, declare("second"))
	if once.CodeOf(err) != once.CodeInFlight || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	waiting := make(chan struct{})
	e = once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: signal{once.EventWaiting, waiting}})
	go func() {
		op := op
		op.Wait = time.Minute
		r, err := once.DoBatch(ctx, e, op, declare("third"))
		if err == nil && (!r.Replayed || r.Value.ID != "holder") {
			err = fmt.Errorf("%+v", r)
		}
		ended <- err
	}()
	left := 2
	select {
	case <-waiting:
	case err := <-ended:
		t.Error("a duplicate has not waited:", err)
		left--
	}
	close(release)
	for range left {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// signal closes a channel at an event, which must happen once.
type signal struct {
	at   once.EventType
	then chan struct{}
}

func (s signal) Observe(_ context.Context, e once.Event) {
	if e.Type == s.at {
		close(s.then)
	}
}

// TestBatchFollowers: duplicates of one process wait for the verdict on a batch, which may be a
// replay, but not for one that is stuck.
func TestBatchFollowers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := engineOn(pool)
	own, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Rollback(ctx) }()
	if _, err := own.Exec(ctx, "update account set balance = 0 where id = 7"); err != nil {
		t.Fatal(err)
	}
	op := once.Operation{Scope: "followers", Key: "k"}
	led := make(chan error)
	declared := make(chan struct{})
	go func() {
		_, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (charge, error) {
			close(declared)
			return declare("leader")(b)
		})
		led <- err
	}()
	<-declared
	if _, err := once.DoBatch(ctx, e, op, declare("follower")); once.CodeOf(err) != once.CodeInFlight {
		t.Error(err)
	}
	if err := own.Rollback(ctx); err != nil {
		t.Error(err)
	}
	if err := <-led; err != nil {
		t.Error(err)
	}
	// None of them has seen it done: one asks, and all replay.
	e = engineOn(pool)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if r, err := once.DoBatch(ctx, e, op, declare("late")); err != nil || !r.Replayed || r.Value.ID != "leader" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	group.Wait()
}

// TestBatchReplacesTheExpired: an operation whose retention is over counts as never seen.
func TestBatchReplacesTheExpired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	op := once.Operation{Scope: "expired", Key: "k"}
	for _, id := range []string{"first", "second"} {
		r, err := once.DoBatch(ctx, engineOn(pool), op, declare(id))
		if err != nil || r.Replayed || r.Value.ID != id {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := pool.Exec(ctx, "update once_operation set expires_at = now()"); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, pool, "select count(*) from once_operation"); n != 1 {
		t.Errorf("%d records", n)
	}
	_, err := once.DoBatch(ctx, engineOn(pool), op, func(b *once.Batch) (int, error) {
		b.ExecRows(1, "update account set balance = 1 where id = -1")
		return 0, nil
	})
	if !isRows(err) || once.EffectOf(err) != once.EffectNotApplied { // found in the second try, which is an ordinary transaction
		t.Error(err)
	}
}

// TestBatchStale: by the database's clock, and only if nothing is found.
func TestBatchStale(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) { t.Parallel(); batchStale(t, openPool(t, mode)) })
	}
}

func batchStale(t *testing.T, pool *pgxpool.Pool) {
	ctx := context.Background()
	op := once.Operation{Scope: "stale", Key: "k", Attempt: once.Attempt{FirstSent: time.Now().Add(-100 * time.Hour)}}
	_, err := once.DoBatch(ctx, engineOn(pool), op, declare("stale"))
	if once.CodeOf(err) != once.CodeStale || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	if n := count(t, pool, "select count(*) from charge") + count(t, pool, "select count(*) from once_operation"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	op.Attempt.FirstSent = time.Now()
	if r, err := once.DoBatch(ctx, engineOn(pool), op, declare("in time")); err != nil || r.Replayed {
		t.Error(r, err)
	}
	op.Attempt.FirstSent = time.Now().Add(-100 * time.Hour)
	if r, err := once.DoBatch(ctx, engineOn(pool), op, declare("found")); err != nil || !r.Replayed {
		t.Error(r, err)
	}
}

// TestBatchTimeouts: what is stuck is told so, nothing was applied, and a retry executes.
func TestBatchTimeouts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 2 })
	e := engineOn(pool)
	const brief = 50 * time.Millisecond
	unavailable := func(name string, err error) {
		t.Helper()
		if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("%s: %v", name, err)
		}
	}
	own, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Exec(ctx, "update account set balance = 0 where id = 7"); err != nil {
		t.Fatal(err)
	}
	op := once.Operation{Scope: "stuck", Key: "k", Timeouts: store.Timeouts{Lock: brief}}
	_, err = once.DoBatch(ctx, e, op, declare("stuck"))
	unavailable("lock", err)
	sleeping := func(b *once.Batch) (charge, error) {
		b.Exec("select pg_sleep(60)")
		return declare("stuck")(b)
	}
	op.Timeouts = store.Timeouts{Statement: brief}
	_, err = once.DoBatch(ctx, e, op, sleeping)
	unavailable("statement", err)
	op.Timeouts = store.Timeouts{}
	left, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = once.DoBatch(left, e, op, sleeping)
	unavailable("deadline", err)

	other, err := pool.Acquire(ctx) // nothing is left in the pool
	if err != nil {
		t.Fatal(err)
	}
	op.Timeouts = store.Timeouts{Acquire: brief}
	_, err = once.DoBatch(ctx, e, op, declare("stuck"))
	if unavailable("pool", err); err != nil && !strings.Contains(err.Error(), "Try: more connections") {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	op.Timeouts = store.Timeouts{}
	_, err = once.DoBatch(cancelled, e, op, declare("stuck"))
	unavailable("cancelled", err)
	other.Release()

	if err := own.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "select count(*) from charge") + count(t, pool, "select count(*) from once_operation"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	if r, err := once.DoBatch(ctx, e, op, declare("at last")); err != nil || r.Replayed {
		t.Error(r, err)
	}
	if n := count(t, pool, "select count(*) from pg_settings where name in ('statement_timeout', 'lock_timeout') and setting <> '0'"); n != 0 {
		t.Error("bounds were left behind")
	}
}

// TestBatchOutlivesTheTables: a table that has changed under prepared statements costs
// no caller an error, nor do statements that were dropped by hand.
func TestBatchOutlivesTheTables(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := engineOn(pool)
	for i, change := range []string{"select 1", "alter table charge add more int", "deallocate all", "alter table charge drop more", "discard all"} {
		if _, err := pool.Exec(ctx, change, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("change", i)
		r, err := once.DoBatch(ctx, e, once.Operation{Scope: "tables", Key: id}, func(b *once.Batch) (charge, error) {
			b.Exec("insert into charge (id, amount) values ($1, 1) returning *", id)
			return charge{id}, nil
		})
		if err != nil || r.Replayed {
			t.Errorf("after %q: %+v, %v", change, r, err)
		}
	}
}

// TestBatchOfManyTexts: a connection keeps some statements, and serves the others.
func TestBatchOfManyTexts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := engineOn(pool)
	for i := range 300 {
		id := fmt.Sprint("text", i)
		if _, err := once.DoBatch(ctx, e, once.Operation{Scope: "texts", Key: id}, func(b *once.Batch) (int, error) {
			b.ExecRows(1, fmt.Sprintf("insert into charge values ('%s', $1)", id), i)
			return i, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 300 {
		t.Errorf("%d effects", n)
	}
	if n := count(t, pool, "select count(*) from pg_prepared_statements"); n > 600 {
		t.Errorf("%d statements are prepared", n)
	}
}

// TestBatchUnwinds: a handler that panics leaves nothing behind, and a batch that is kept is closed.
func TestBatchUnwinds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := engineOn(pool)
	op := once.Operation{Scope: "unwinds", Key: "k"}
	var kept *once.Batch
	panics := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	if v := panics(func() {
		_, _ = once.DoBatch(ctx, e, op, func(b *once.Batch) (int, error) {
			kept = b
			panic("boom")
		})
	}); v != "boom" {
		t.Error(v)
	}
	if panics(func() { kept.Exec("insert into charge values ('late', 1)") }) == nil {
		t.Error("a batch takes writes after its end")
	}
	if panics(func() { new(once.Batch).ExecRows(0, "select") }) == nil {
		t.Error("zero rows cannot be expected, and nothing says so")
	}
	declined := errors.New("no")
	if _, err := once.DoBatch(ctx, e, op, func(*once.Batch) (int, error) { return 0, declined }); !errors.Is(err, declined) || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	if r, err := once.DoBatch(ctx, e, op, declare("then")); err != nil || r.Replayed {
		t.Error(r, err)
	}
	if _, err := once.DoBatch(ctx, e, once.Operation{}, declare("forgotten")); once.CodeOf(err) != once.CodeInvalid {
		t.Error(err)
	}
}
