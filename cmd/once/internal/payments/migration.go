package payments

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migration/*.sql
var migrations embed.FS

// migrate applies the numbered files that the database does not have yet, in one transaction. On MySQL and MariaDB a transaction does not cover
// DDL: if a migration is interrupted there, the next run completes it.
func migrate(ctx context.Context, db *DB) error {
	files, err := fs.Glob(migrations, "migration/*.sql") // sorted, and the names begin with the number
	if err != nil {
		return err
	}
	return db.inTx(ctx, false, func(tx queries) error {
		if db.lock != "" {
			if _, err := tx.exec(ctx, db.lock); err != nil {
				return err
			}
		}
		if _, err := tx.exec(ctx, "create table if not exists payments_migration (version integer primary key)"); err != nil {
			return err
		}
		have := 0
		if _, err := one(ctx, tx, []any{&have}, "select count(*) from payments_migration"); err != nil {
			return err
		}
		for i := have; i < len(files); i++ {
			text, err := migrations.ReadFile(files[i])
			if err != nil {
				return err
			}
			if err := db.apply(ctx, tx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", files[i], err)
			}
			if _, err := tx.exec(ctx, fmt.Sprintf("insert into payments_migration (version) values (%d)", i+1)); err != nil {
				return err
			}
		}
		if db.unlock != "" {
			_, err = tx.exec(ctx, db.unlock)
		}
		return err
	})
}

// apply runs the statements of one file.
func (db *DB) apply(ctx context.Context, tx queries, text string) error {
	statements := []string{text}
	if db.ddl != nil {
		statements = db.ddl(text)
	}
	for _, statement := range statements {
		if _, err := tx.exec(ctx, statement); err != nil && (db.exists == nil || !db.exists(err)) {
			return err
		}
	}
	return nil
}
