package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once/store"
)

// writeMySQL writes a record that the transaction has claimed, on MariaDB together with
// COMMIT.
func (t *txn) writeMySQL(ctx context.Context, c store.Change) error {
	if err := t.s.writes(ctx, t.tx, c.Writes); err != nil || c.ID.IsZero() {
		return err
	}
	finish := fill(mysqlFinish, mysqlRecord(c)...)
	if t.s.compound && t.conn != nil {
		t.guard.Last(finish + "; if row_count() <> 1 then signal sqlstate '45000' set message_text = '" + claimLost + "'; end if")
		return nil
	}
	written, err := claimed(t.tx.ExecContext(ctx, finish))
	switch {
	case err != nil:
		return t.s.failed(err, false)
	case !written:
		return &store.Error{Kind: store.Misused, Err: errors.New(claimLost)}
	}
	return nil
}

const claimLost = "the handler has changed the row of its own operation in once_operation"

// swapMySQL is a Swap of an operation that must be absent: a claim like any other.
func (s *Store) swapMySQL(ctx context.Context, c store.Change) (store.Record, error) {
	t, rec, err := s.claimMySQL(ctx, store.Ask{ID: c.ID})
	switch {
	case err != nil:
		return store.Record{}, err
	case t == nil:
		return rec, &store.Error{Kind: store.Taken, Err: errExpect}
	}
	t.stop()
	if err := t.Commit(ctx, c); err != nil {
		return store.Record{}, err
	}
	return c.Next, nil
}

// replaceMySQL changes a record that must be there.
func (t *txn) replaceMySQL(ctx context.Context, c store.Change) error {
	var one int
	id := []any{c.ID.Scope, c.ID.Key}
	err := t.tx.QueryRowContext(ctx, fill(mysqlExpected, append(id, c.Expect.Fence, c.Expect.Lapsed)...)).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &store.Error{Kind: store.Taken, Err: errExpect}
	case err != nil:
		return t.s.failed(err, true)
	}
	change := fill(mysqlDelete, id...)
	if c.Next.State != store.Absent {
		change = fill(mysqlUpdate, mysqlRecord(c)...)
	}
	if _, err := t.tx.ExecContext(ctx, change); err != nil {
		return t.s.failed(err, false)
	}
	return nil
}

// checkMySQL asks a server for what the store builds on, and whether it is a MariaDB.
func checkMySQL(ctx context.Context, db *sql.DB) (compound bool, err error) {
	if err := checkMode(ctx, db); err != nil {
		return false, err
	}
	var autocommit bool
	if err := db.QueryRowContext(ctx, "select @@autocommit").Scan(&autocommit); err != nil {
		return false, err
	}
	if !autocommit {
		return false, errors.New("autocommit is off, so that every look would leave a transaction open. Try: no autocommit in the data source name, or autocommit=1")
	}
	var name, level string
	if err := db.QueryRowContext(ctx, "show variables where variable_name in ('tx_isolation', 'transaction_isolation')").Scan(&name, &level); err != nil {
		return false, err
	}
	if level == "READ-UNCOMMITTED" {
		return false, fmt.Errorf("%s is %s, at which an operation in flight would be seen as one that has ended. Try: READ-COMMITTED", name, level)
	}
	switch _, err := db.ExecContext(ctx, "begin not atomic do 0; end"); {
	case err == nil:
		return true, nil
	case is(err, mysqlSyntax):
		return false, nil
	default:
		return false, err
	}
}

// checkMode refuses sessions of MariaDB in which an empty text is null.
func checkMode(ctx context.Context, session interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) error {
	var mode string
	if err := session.QueryRowContext(ctx, "select @@sql_mode").Scan(&mode); err != nil {
		return err
	}
	if strings.Contains(mode, "EMPTY_STRING_IS_NULL") {
		return errors.New("sql_mode has EMPTY_STRING_IS_NULL, by which the statements of the store mean something else. Try: a sql_mode without it, in the data source name")
	}
	return nil
}
