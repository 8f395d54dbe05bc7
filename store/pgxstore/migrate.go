package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

// Migrate creates or updates the store's table, in one transaction. Nodes that
// start together may all call it.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := probe(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, pgsql.MigrationLock); err != nil {
			return err
		}
		_, err := migration.Up(ctx, store.PostgreSQL, migrating{tx})
		return err
	})
}

// Status returns every migration and whether the database has it.
func Status(ctx context.Context, pool *pgxpool.Pool) ([]migration.Status, error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // it has only read
	return migration.Read(ctx, store.PostgreSQL, migrating{tx})
}

type migrating struct{ tx pgx.Tx }

func (m migrating) Exec(ctx context.Context, sql string) error {
	_, err := m.tx.Exec(ctx, sql)
	return err
}

func (m migrating) Versions(ctx context.Context, query string) ([]int, error) {
	rows, err := m.tx.Query(ctx, query)
	if err != nil {
		return nil, undefined(err)
	}
	v, err := pgx.CollectRows(rows, pgx.RowTo[int])
	return v, undefined(err)
}

// undefined forgives a table that is not there yet: no migration was applied.
func undefined(err error) error {
	if pe := serverError(err); pe != nil && pe.Code == pgsql.UndefinedTable {
		return nil
	}
	return err
}
