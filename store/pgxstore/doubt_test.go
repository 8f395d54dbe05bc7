package pgxstore_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// events remembers their types.
type events struct {
	mu   sync.Mutex
	seen []once.EventType
}

func (e *events) Observe(_ context.Context, ev once.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, ev.Type)
}

// TestCompletionUnknownIsDoubt: a server (or what stands in front of it) that answers
// COMMIT with 40003 does not know what became of it, and saying "failed" would be a
// guess.
func TestCompletionUnknownIsDoubt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	_, err := pool.Exec(ctx, `
create function unsure() returns trigger language plpgsql as $$ begin raise exception 'unsure' using errcode = '40003'; end $$;
create constraint trigger unsure after insert on charge deferrable initially deferred for each row execute function unsure();`)
	if err != nil {
		t.Fatal(err)
	}
	seen := new(events)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1, Observer: seen})
	_, err = once.Do(ctx, e, once.Operation{Scope: "doubt", Key: "1"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "insert into charge values ('doubt', 1)")
		return 1, err
	})
	if !slices.Contains(seen.seen, once.EventInDoubt) || !slices.Contains(seen.seen, once.EventSettled) {
		t.Errorf("it was not asked for: %v", seen.seen)
	}
	if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
}
