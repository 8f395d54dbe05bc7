package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// TestMissingTables: New finds that the database is not migrated, and an operation finds a table that
// has gone since, as an error that says what to do.
func TestMissingTables(t *testing.T) {
	testenv.Both(t)
	onSources(t, func(t *testing.T, src source) {
		ctx := t.Context()
		db, err := sqlstore.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		told := func(what string, err error) {
			if !errors.Is(err, store.ErrNotMigrated) || !strings.HasSuffix(err.Error(), "Try: once migrate up, or sqlstore.Migrate") {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = sqlstore.New(ctx, db, src.config)
		told("New", err)
		none := src.config
		none.NoOperations = true
		if _, err := sqlstore.New(ctx, db, none); err != nil {
			t.Errorf("a database without operations: %v", err)
		}
		if err := sqlstore.Migrate(ctx, db); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.New(ctx, db, src.config)
		if err != nil {
			t.Fatal(err)
		}
		engine := once.New(s, once.Config{Observer: once.Discard})
		if err := engine.Check(ctx); err != nil {
			t.Error(err)
		}
		run(t, db, "create table effect (name varchar(100) not null)", "drop table once_operation")
		told("Check", engine.Check(ctx))
		for what, op := range map[string]once.Operation{
			"nothing known":   {Scope: "s", Key: "k"},
			"a first attempt": {Scope: "s", Key: "k", Attempt: once.Attempt{Number: 1}},
		} {
			_, err = once.Do(ctx, engine, op, func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, effect(ctx, tx, "e") })
			told(what, err)
			if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
