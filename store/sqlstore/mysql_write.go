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
	if err := t.s.checkSize(ctx, t.tx, sizeMySQL(c)); err != nil {
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
		return &store.Error{Kind: store.KindMisused, Err: errors.New(claimLost)}
	}
	return nil
}

const claimLost = "the handler has changed the row of its own operation in once_operation"

// swapMySQL is a Swap of an operation that must be absent: a claim like any other.
func (s *Store) swapMySQL(ctx context.Context, c store.Change) (store.Record, error) {
	t, rec, err := s.claimMySQL(ctx, store.BeginOptions{ID: c.ID})
	switch {
	case err != nil:
		return store.Record{}, err
	case t == nil:
		return rec, &store.Error{Kind: store.KindTaken, Err: errExpect}
	}
	t.stop()
	if err := t.Commit(ctx, c); err != nil {
		return store.Record{}, err
	}
	return c.Next, nil
}

// replaceMySQL changes a record that must be there.
func (t *txn) replaceMySQL(ctx context.Context, c store.Change) error {
	var onReplica bool
	id := []any{c.ID.Scope, c.ID.Key}
	err := t.tx.QueryRowContext(ctx, fill(mysqlExpected, append(id, c.Expect.Fence, c.Expect.LeaseExpired)...)).Scan(&onReplica)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &store.Error{Kind: store.KindTaken, Err: errExpect}
	case err != nil:
		return t.s.failed(err, true)
	case onReplica:
		return t.s.down(errReplica)
	}
	if err := t.s.checkSize(ctx, t.tx, sizeMySQL(c)); err != nil {
		return err
	}
	change := fill(mysqlDelete, id...)
	if c.Next.State != store.StateAbsent {
		change = fill(mysqlUpdate, mysqlRecord(c)...)
	}
	if _, err := t.tx.ExecContext(ctx, change); err != nil {
		return t.s.failed(err, false)
	}
	return nil
}

// checkMySQL asks a server for what the store builds on, and what it can do.
func (s *Store) checkMySQL(ctx context.Context) error {
	db := s.db
	if err := checkMode(ctx, db); err != nil {
		return err
	}
	var autocommit bool
	var packet int64
	if err := db.QueryRowContext(ctx, "select @@autocommit, @@max_allowed_packet").Scan(&autocommit, &packet); err != nil {
		return err
	}
	s.packet.Store(packet)
	if !autocommit {
		return errors.New("autocommit is off, so that every look would leave a transaction open. Try: no autocommit in the data source name, or autocommit=1")
	}
	var name, level string
	if err := db.QueryRowContext(ctx, "show variables where variable_name in ('tx_isolation', 'transaction_isolation')").Scan(&name, &level); err != nil {
		return err
	}
	if level == "READ-UNCOMMITTED" {
		return fmt.Errorf("%s is %s, at which an operation in flight would be seen as one that has ended. Try: READ-COMMITTED", name, level)
	}
	s.serializable = level == "SERIALIZABLE"
	switch _, err := db.ExecContext(ctx, "begin not atomic do 0; end"); {
	case err == nil:
		s.compound = true
		return nil
	case is(err, mysqlSyntax):
		return nil
	default:
		return err
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
