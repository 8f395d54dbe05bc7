package sqlstore

import (
	"context"
	"database/sql"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// Migrate creates or updates the store's table, and the tables of the capabilities that the program uses, in
// one transaction:
//
//	err := sqlstore.Migrate(ctx, db, attemptlog.Migrations)
//
// If the database needs no migration, Migrate writes nothing. Several nodes may call Migrate at the same time
// when they start. If the database has newer migrations than the program, Migrate returns an error that says
// so. The parameter db must be a result of [Open] or [OpenDB].
//
// MySQL and MariaDB commit after every statement that changes a schema. On MySQL and MariaDB, Migrate runs
// under a lock (GET_LOCK). If a run of Migrate is killed, the next run completes the work of the killed run.
func Migrate(ctx context.Context, db *sql.DB, sets ...migration.Set) error {
	return MigrateOnly(ctx, db, withOperation(sets)...)
}

// MigrateOnly is [Migrate] for a database in which no operations are stored: MigrateOnly creates or updates
// only the tables of sets.
func MigrateOnly(ctx context.Context, db *sql.DB, sets ...migration.Set) error {
	d, _, err := dialectOf(ctx, db)
	if err != nil {
		return err
	}
	if d.name == sqlplane.MySQL {
		return migrateMySQL(ctx, db, sets)
	}
	var opts store.BeginOptions
	if d.name == sqlplane.PostgreSQL {
		opts.Isolation = store.ReadCommitted // at a higher level, a process that has waited for the lock would not see the tables of the process before it
	}
	// If the server keeps no advisory locks, another process may create the same table at this moment.
	for tries := pgsql.MigrateTries; ; tries-- {
		err := migrateOnce(ctx, &Store{db: db, dialect: d}, opts, sets)
		if d.name != sqlplane.PostgreSQL || !pgsql.Overtaken(sqlguard.SQLState(err)) || tries == 1 || ctx.Err() != nil {
			return err
		}
	}
}

// migrateOnce runs the migrations in one transaction.
func migrateOnce(ctx context.Context, s *Store, opts store.BeginOptions, sets []migration.Set) error {
	d := s.dialect
	t, err := s.open(ctx, opts)
	if err != nil {
		return err
	}
	defer t.release()
	m := migrating{t.tx, d}
	if d.lock != "" {
		err = m.Exec(ctx, d.lock)
	}
	if err == nil {
		_, err = migration.Up(ctx, d.name, m, sets...)
	}
	if err != nil {
		_ = t.tx.Rollback()
		return err
	}
	return t.tx.Commit()
}

// Status returns every migration of the store and of sets, and says for each migration whether the database has
// applied it.
func Status(ctx context.Context, db *sql.DB, sets ...migration.Set) ([]migration.Status, error) {
	d, _, err := dialectOf(ctx, db)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // the transaction has only read
	return migration.Read(ctx, d.name, migrating{tx, d}, withOperation(sets)...)
}

// withOperation puts the migrations of the store itself before the other sets.
func withOperation(sets []migration.Set) []migration.Set {
	return append([]migration.Set{migration.Operation}, sets...)
}

// migrating runs migrations in a transaction, or on a connection of MySQL.
type migrating struct {
	tx interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	d database
}

func (m migrating) Exec(ctx context.Context, query string) error {
	if m.d.name == sqlplane.MySQL {
		return m.execMySQL(ctx, query)
	}
	_, err := m.tx.ExecContext(ctx, query)
	return err
}

func (m migrating) Query(ctx context.Context, query string, each func(sqlplane.Row) error) error {
	rows, err := m.tx.QueryContext(ctx, query)
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
