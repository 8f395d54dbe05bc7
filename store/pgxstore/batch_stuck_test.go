package pgxstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// TestBatchGivesUp: a batch that is stuck behind a lock when its time is over is ended by the
// server, which says so, and no connection is left with the cancellation of another request.
func TestBatchGivesUp(t *testing.T) {
	for mode, configure := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			pool := openPool(t, configure)
			own, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := own.Exec(ctx, "update account set balance = 0 where id = 7"); err != nil {
				t.Fatal(err)
			}
			var op once.Operation
			for tries := 1; ; tries++ {
				seen := new(events)
				e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Settle: 200 * time.Millisecond, Observer: seen})
				op = once.Operation{Scope: "stuck", Key: once.NewKey()}
				_, err = once.DoBatch(ctx, e, op, declare(op.Key))
				if once.CodeOf(err) == once.CodeUnavailable && once.EffectOf(err) == once.EffectNotApplied && !slices.Contains(seen.seen, once.EventInDoubt) {
					break
				}
				if tries == 5 { // a busy server may need more than the second that it has for its answer
					t.Errorf("the server says no, and it is doubted: %v, %v", err, seen.seen)
					break
				}
			}
			if err := own.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			if r, err := once.DoBatch(ctx, engineOn(pool), op, declare("then")); err != nil || r.Replayed {
				t.Error(r, err)
			}
		})
	}
}

// TestBatchThatWasCancelledIsAsked: a server that has heard the cancellation may have
// committed all the same, without what it was waiting for. That is no answer.
func TestBatchThatWasCancelledIsAsked(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 4 })
	if _, err := pool.Exec(ctx, `
create function deaf() returns trigger language plpgsql as $$ begin
	perform pg_sleep(60);
	return null;
exception when query_canceled then
	return null;
end $$;
create constraint trigger deaf after insert on charge deferrable initially deferred for each row execute function deaf();`); err != nil {
		t.Fatal(err)
	}
	for settle := 2 * time.Second; ; settle *= 4 {
		seen := new(events)
		e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Settle: settle, Observer: seen})
		key := once.NewKey()
		r, err := once.DoBatch(ctx, e, once.Operation{Scope: "deaf", Key: key}, declare(key))
		if once.CodeOf(err) == once.CodeUnavailable && settle < time.Minute {
			continue // a busy machine did not get as far as COMMIT, or did not answer in time when it was asked
		}
		if err != nil || r.Replayed || r.Value.ID != key {
			t.Error(r, err)
		}
		if !slices.Contains(seen.seen, once.EventInDoubt) || !slices.Contains(seen.seen, once.EventSettled) {
			t.Errorf("it was not asked for: %v", seen.seen)
		}
		return
	}
}

// TestBatchOfManyBytes is larger than what fits between client and server.
func TestBatchOfManyBytes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	if _, err := pool.Exec(ctx, "create table big (n int, text text)"); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 10_000)
	_, err := once.DoBatch(ctx, engineOn(pool), once.Operation{Scope: "big", Key: "k"}, func(b *once.Batch) (int, error) {
		for i := range 2000 {
			b.Exec("insert into big values ($1, $2) returning text", i, text)
		}
		return 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "select count(*) from big"); n != 2000 {
		t.Error(n)
	}
}

// TestBatchOutlivesItsCaller: who hangs up when the writes are declared does not end them.
func TestBatchOutlivesItsCaller(t *testing.T) {
	for mode, configure := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			e := engineOn(openPool(t, configure))
			op := once.Operation{Scope: "gone", Key: "k"}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (charge, error) {
				cancel()
				return declare("gone")(b)
			})
			if err != nil || r.Replayed {
				t.Error(r, err)
			}
			if r, err := once.DoBatch(context.Background(), e, op, declare("again")); err != nil || !r.Replayed || r.Value.ID != "gone" {
				t.Error(r, err)
			}
		})
	}
}
