package integration

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store/sqlstore"
)

func oneWriter(store string) bool { return store == harness.SQLite || store == harness.Group }

func openPostgres(ctx context.Context, su setup) (system, error) {
	cfg, err := pgx.ParseConfig(su.dsn)
	if err != nil {
		return nil, err
	}
	if su.dial != nil {
		cfg.DialFunc = su.dial
	}
	su.polite(&cfg.Config)
	name := stdlib.RegisterConnConfig(cfg)
	db, err := sqlstore.Open("pgx", name)
	if err != nil {
		return nil, err
	}
	r, err := openSQL(ctx, db, su, func(query string) string { return query })
	if err != nil {
		return nil, err
	}
	closeDB := r.close
	r.close = func() { closeDB(); stdlib.UnregisterConnConfig(name) }
	return r, nil
}

func openSQLite(ctx context.Context, su setup) (system, error) {
	if su.opens != nil {
		return openSQL(ctx, su.opens(), su, sqlitePlaceholders)
	}
	db, err := sqlstore.Open("sqlite", su.dsn)
	if err != nil {
		return nil, err
	}
	return openSQL(ctx, db, su, sqlitePlaceholders)
}

func openGroup(ctx context.Context, su setup) (system, error) {
	su.sqlstore.GroupCommit = true
	return openSQLite(ctx, su)
}

func openSQL(ctx context.Context, db *sql.DB, su setup, dialect func(string) string) (*rig[*sql.Tx], error) {
	if su.conns > 0 {
		db.SetMaxOpenConns(su.conns)
		db.SetMaxIdleConns(su.conns)
	}
	s, err := sqlstore.New(ctx, db, su.sqlstore)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	r := newRig[*sql.Tx](s, su)
	r.close = func() { _ = db.Close() }
	r.dialect = dialect
	r.exec = func(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, dialect(query), args...)
		return err
	}
	r.begin = func(ctx context.Context) (ownTx[*sql.Tx], error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return ownTx[*sql.Tx]{}, err
		}
		return ownTx[*sql.Tx]{tx, ended(tx.Commit), ended(tx.Rollback)}, nil
	}
	return r, nil
}

func ended(f func() error) func(context.Context) error {
	return func(context.Context) error { return f() }
}
