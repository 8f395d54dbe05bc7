package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// Migrate creates or updates the store's table, and the tables of other features that the program uses (the
// parameter sets), in one transaction:
//
//	err := pgxstore.Migrate(ctx, pool, attemptlog.Migrations)
//
// If the database needs no migration, Migrate writes nothing. Several nodes may call Migrate at the same time
// when they start. If the database has newer migrations than the program, the error of Migrate says so.
func Migrate(ctx context.Context, pool *pgxpool.Pool, sets ...migration.Set) error {
	// At a higher isolation level, a process that has waited for the lock would not see the tables of the process before
	// it.
	level := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	up := func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, pgsql.MigrationLock); err != nil {
			return err
		}
		_, err := migration.Up(ctx, sqlplane.PostgreSQL, migrating{tx}, withOperation(sets)...)
		return err
	}
	// If the server keeps no advisory locks, another process may create the same table at this moment.
	for tries := pgsql.MigrateTries; ; tries-- {
		err := pgx.BeginTxFunc(ctx, pool, level, up)
		if pe := serverError(err); pe == nil || !pgsql.Overtaken(pe.Code) || tries == 1 || ctx.Err() != nil {
			return err
		}
	}
}

// withOperation puts the migrations of the store itself before the other sets.
func withOperation(sets []migration.Set) []migration.Set {
	return append([]migration.Set{migration.Operation}, sets...)
}

// migrating runs migrations in a transaction.
type migrating struct{ tx pgx.Tx }

func (m migrating) Exec(ctx context.Context, sql string) error {
	_, err := m.tx.Exec(ctx, sql)
	return err
}

func (m migrating) Query(ctx context.Context, sql string, each func(sqlplane.Row) error) error {
	rows, err := m.tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
