package sqlstore

import (
	"context"
	"database/sql"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

// Migrate creates or updates the store's table, in one transaction. Nodes that
// start together may all call it. db must come from [Open] or [OpenDB].
//
// MySQL and MariaDB commit every statement that changes a schema. There it runs under
// GET_LOCK, and what a run that was killed has left is completed by the next one.
func Migrate(ctx context.Context, db *sql.DB) error {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return err
	}
	if d.name == store.MySQL {
		return migrateMySQL(ctx, db)
	}
	t, err := (&Store{db: db, dialect: d}).open(ctx, store.BeginOptions{})
	if err != nil {
		return err
	}
	defer t.release()
	m := migrating{t.tx, d}
	if d.name == store.PostgreSQL {
		err = probeClaims(ctx, t.tx)
	}
	if err == nil && d.lock != "" {
		err = m.Exec(ctx, d.lock)
	}
	if err == nil {
		_, err = migration.Up(ctx, d.name, m)
	}
	if err != nil {
		_ = t.tx.Rollback()
		return err
	}
	return t.tx.Commit()
}

// Status returns every migration and whether the database has it.
func Status(ctx context.Context, db *sql.DB) ([]migration.Status, error) {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	return migration.Read(ctx, d.name, migrating{tx, d})
}

type migrating struct {
	tx interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	d database
}

func (m migrating) Exec(ctx context.Context, query string) error {
	if m.d.name == store.MySQL {
		return m.execMySQL(ctx, query)
	}
	_, err := m.tx.ExecContext(ctx, query)
	return err
}

func (m migrating) Versions(ctx context.Context, query string) (v []int, err error) {
	rows, err := m.tx.QueryContext(ctx, query)
	if m.d.undefined(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		v = append(v, 0)
		if err := rows.Scan(&v[len(v)-1]); err != nil {
			return nil, err
		}
	}
	return v, rows.Err()
}
