package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// runner runs migrations in a transaction of the test.
type runner struct{ tx *sql.Tx }

func (r runner) Exec(ctx context.Context, query string) error {
	_, err := r.tx.ExecContext(ctx, query)
	return err
}

func (r runner) Query(ctx context.Context, query string, each func(sqlplane.Row) error) error {
	rows, err := r.tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// TestMigrationSeesTheWorkOfThoseBeforeIt: a migration waits for the lock while a program with other capabilities migrates. The migration must
// see the new tables even where SERIALIZABLE is the default level. With the snapshot from the beginning of its wait, it
// would fail, try again, be overtaken by the next program, and return an error after three tries.
func TestMigrationSeesTheWorkOfThoseBeforeIt(t *testing.T) {
	t.Parallel()
	sets := []migration.Set{migration.Operation, attemptlog.Migrations, deadletter.Migrations}
	for name, migrate := range map[string]func(ctx context.Context, src source) error{
		"pgxstore": func(ctx context.Context, src source) error {
			pool, err := pgxpool.New(ctx, src.dsn)
			if err != nil {
				return err
			}
			defer pool.Close()
			return pgxstore.Migrate(ctx, pool, sets[1:]...)
		},
		"database_sql": func(ctx context.Context, src source) error {
			db, err := sqlstore.Open(src.driver, src.dsn)
			if err != nil {
				return err
			}
			defer func() { _ = db.Close() }()
			return sqlstore.Migrate(ctx, db, sets[1:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := newSource(t, harness.Postgres)
			others := opened(t, src)
			src.dsn += "&default_transaction_isolation=serializable"
			waiting := func(n int) error {
				if count(t, others, "select count(*) from pg_locks join pg_database d on d.oid = database where datname = current_database() and locktype = 'advisory' and not granted") == n {
					return nil
				}
				return fmt.Errorf("the number of sessions that wait for the lock is not %d", n)
			}
			lock := func() *sql.Tx {
				tx, err := others.BeginTx(t.Context(), nil)
				if err == nil {
					_, err = tx.ExecContext(t.Context(), pgsql.MigrationLock)
				}
				if err != nil {
					t.Error(err)
				}
				return tx
			}
			held, ended := lock(), make(chan error, 1)
			go func() { ended <- migrate(t.Context(), src) }()
			harness.Until(t, func() error { return waiting(1) })
			for _, set := range sets {
				next := make(chan *sql.Tx, 1)
				go func() { next <- lock() }()
				harness.Until(t, func() error { return waiting(2) })
				if _, err := migration.Up(t.Context(), sqlplane.PostgreSQL, runner{held}, set); err != nil {
					t.Fatal(err)
				}
				if err := held.Commit(); err != nil {
					t.Fatal(err)
				}
				held = <-next
				harness.Until(t, func() error {
					if len(ended) == 1 {
						return nil
					}
					return waiting(1)
				})
				if len(ended) == 1 {
					break
				}
				t.Errorf("%s: the migration was overtaken, and waits again", set.Capability)
			}
			_ = held.Rollback()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			st, err := sqlstore.Status(t.Context(), others, sets[1:]...)
			if err != nil || len(st) < len(sets) {
				t.Errorf("afterwards: %v, %v", st, err)
			}
			for _, m := range st {
				if !m.Applied {
					t.Errorf("%s: %s is not applied", m.Capability, m.File())
				}
			}
		})
	}
}
