package pgxstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestALockedTableIsNoOutage: a statement that has waited for a lock as long as it may says that the
// database is busy, and not that it is down.
func TestALockedTableIsNoOutage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "100" })
	s := pgxstore.New(pool, pgxstore.Config{})
	id := store.ID{Scope: "s", Key: "k"}
	if _, err := s.Read(ctx, id); err != nil { // the first look asks more
		t.Fatal(err)
	}
	other, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(ctx) }()
	if _, err := other.Exec(ctx, "lock table once_operation in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]func() error{
		"Begin": func() error { _, _, err := s.Begin(ctx, store.BeginOptions{ID: id}); return err },
		"Read":  func() error { _, err := s.Read(ctx, id); return err },
		"Swap": func() error {
			_, err := s.Swap(ctx, store.Change{ID: id, Next: store.Record{State: store.StateDone, Fence: 1}})
			return err
		},
		"Renew": func() error {
			_, err := s.Unwrap().(store.Renewer).Renew(ctx, []store.Hold{{ID: id, Fence: 1}}, 1e9)
			return err
		},
		"Sweep":      func() error { _, err := s.Sweep(ctx, upkeep.Sweep{Limit: 1}); return err },
		"Unfinished": func() error { _, _, err := s.Unfinished(ctx, upkeep.Listing{Limit: 1}); return err },
		"Join": func() error {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(ctx) }()
			_, _, err = s.Join(ctx, tx, store.BeginOptions{ID: id})
			return err
		},
	} {
		if err := path(); store.KindOf(err) != store.KindBusy {
			t.Errorf("%s: %v, want kind %q", name, err, store.KindBusy)
		}
	}
}
