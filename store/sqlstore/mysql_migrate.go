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

// The lock belongs to the whole server, and its name has at most 64 characters. MySQL has no md5 since
// 9.6; MariaDB keeps it, so that an earlier program that migrates at the same time is excluded.
const (
	migrationLockName = "concat('once migrate ', /*M! md5(database()) */ /*!80000 left(sha2(database(), 256), 32) */)"
	migrationLock     = "select coalesce(get_lock(" + migrationLockName + ", 60), 0)"
	migrationUnlock   = "do release_lock(" + migrationLockName + ")"
)

var errMigrationLock = errors.New("another migration of this database has been running for a minute, so this migration was not started. Try: once migrate status, and then migrate again")

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
		sqlguard.Drop(conn) // it may have the lock
		return fmt.Errorf("sqlstore: %w", err)
	}
	if !locked {
		return fmt.Errorf("sqlstore: %w", errMigrationLock)
	}
	_, err = migration.Up(ctx, sqlplane.MySQL, migrating{conn, mysql}, sets...)
	if _, unlocked := conn.ExecContext(context.WithoutCancel(ctx), migrationUnlock); unlocked != nil {
		sqlguard.Drop(conn) // the lock goes with the connection
	}
	return err
}

// execMySQL runs the statements of a file one by one; each ends at the end of a line. A statement that
// a killed run has executed already fails, because what it creates exists or what it drops does not; that error is ignored.
func (m migrating) execMySQL(ctx context.Context, text string) error {
	for statement := range strings.SplitSeq(text, ";\n") {
		if statement = strings.TrimSuffix(strings.TrimSpace(statement), ";"); statement == "" {
			continue
		}
		_, err := m.tx.ExecContext(ctx, statement)
		switch code, _ := sqlguard.MySQLCode(err); code {
		case 1050, 1060, 1061, 1091: // the table, the column, the index is there, or the index to be dropped is not
		default:
			if err != nil {
				return err
			}
		}
	}
	return nil
}
