package pgxstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestMissingTables: that the database is not migrated is found at start, and otherwise by the first
// operation, whatever its path, as an error that says what to do.
func TestMissingTables(t *testing.T) {
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "create table charge (id text primary key, amount int)"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: once.Log(slog.New(slog.NewTextHandler(&log, nil)))})

	told := func(what string, err error) {
		if !errors.Is(err, store.ErrNotMigrated) || !strings.HasSuffix(err.Error(), "Try: once migrate up, or pgxstore.Migrate") {
			t.Errorf("%s: %v", what, err)
		}
	}
	told("Check", engine.Check(ctx))
	write := func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "insert into charge values ($1, $2)", "ch_1", 1)
		return 1, err
	}
	for what, op := range map[string]once.Operation{
		"a retry":         {Scope: "s", Key: "k", Attempt: once.Attempt{Number: 2}},
		"nothing known":   {Scope: "s", Key: "k"},
		"a first attempt": {Scope: "s", Key: "k", Attempt: once.Attempt{Number: 1}},
	} {
		log.Reset()
		_, err := once.Do(ctx, engine, op, write)
		told(what, err)
		if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("%s: %v", what, err)
		}
		if !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s is logged as %s", what, &log)
		}
	}
	_, err = once.DoBatch(ctx, engine, once.Operation{Scope: "s", Key: "k"}, func(b *once.Batch) (int, error) {
		b.Exec("insert into charge values ($1, $2)", "ch_1", 1)
		return 1, nil
	})
	told("a batch", err)
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges without a key", n)
	}

	if err := pgxstore.Migrate(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if err := engine.Check(ctx); err != nil {
		t.Error(err)
	}
	if _, err := once.Do(ctx, engine, once.Operation{Scope: "s", Key: "k"}, write); err != nil {
		t.Error(err)
	}
}

// TestMissingTableOfTheUser: a table of the handler's own is not one of once.
func TestMissingTableOfTheUser(t *testing.T) {
	engine := once.New(pgxstore.New(openPool(t), pgxstore.Config{}), once.Config{Observer: once.Discard})
	_, err := once.Do(t.Context(), engine, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "insert into missing values (1)")
		return 1, err
	})
	if once.CodeOf(err) != once.CodeFailed || errors.Is(err, store.ErrNotMigrated) {
		t.Error(err)
	}
}
