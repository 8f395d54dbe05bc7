package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// The lock belongs to the whole server, and its name has at most 64 characters. MySQL has no function md5 since 9.6.
// MariaDB keeps md5, so that the lock also excludes an earlier release that migrates at the same time.
const (
	migrationLockName = "concat('once migrate ', /*M! md5(database()) */ /*!80000 left(sha2(database(), 256), 32) */)"
	migrationLock     = "select coalesce(get_lock(" + migrationLockName + ", 60), 0)"
	migrationUnlock   = "do release_lock(" + migrationLockName + ")"
)

var errMigrationLock = errors.New("another migration of this database has been running for a minute, so this migration was not started. Try: once migrate status, and then migrate again")

// migrateMySQL migrates under a lock, because MySQL commits after every statement that changes a schema.
func migrateMySQL(ctx context.Context, db *sql.DB, sets []migration.Set) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := checkMode(ctx, conn); err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	var locked bool
	if err := conn.QueryRowContext(ctx, migrationLock).Scan(&locked); err != nil {
		sqlguard.Drop(conn) // the session may hold the lock
		return fmt.Errorf("sqlstore: %w", err)
	}
	if !locked {
		return fmt.Errorf("sqlstore: %w", errMigrationLock)
	}
	_, err = migration.Up(ctx, sqlplane.MySQL, migrating{conn, mysql}, sets...)
	// If ctx has ended, the lock must still be released.
	if _, unlocked := conn.ExecContext(context.WithoutCancel(ctx), migrationUnlock); unlocked != nil {
		sqlguard.Drop(conn) // the end of the connection releases the lock
	}
	return err
}

// execMySQL runs the statements of a file one by one. Each statement ends at the end of a line. If a killed run has
// already executed a statement, the error of the second execution is ignored.
func (m migrating) execMySQL(ctx context.Context, text string) error {
	for statement := range strings.SplitSeq(text, ";\n") {
		if statement = strings.TrimSuffix(strings.TrimSpace(statement), ";"); statement == "" {
			continue
		}
		_, err := m.tx.ExecContext(ctx, statement)
		switch code, _ := sqlguard.MySQLCode(err); code {
		case 1050, 1060, 1061, 1091: // the table, column or index exists already, or the index to drop does not exist any more
		default:
			if err != nil {
				return err
			}
		}
	}
	return nil
}
