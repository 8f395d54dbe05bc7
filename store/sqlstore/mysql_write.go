package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// writeMySQL writes a record. If the transaction holds the claim from its beginning, and the server accepts several
// statements in a packet, the record is sent together with COMMIT.
func (t *txn) writeMySQL(ctx context.Context, c store.Change) error {
	if t.conn != nil && t.guard.HasMark() {
		// If a statement has ended the transaction, the record would be written in another transaction. The mark is set before
		// the first statement that may end it. So without a mark, no statement has ended the transaction.
		_, err := t.tx.ExecContext(ctx, sqlguard.CheckMark)
		switch {
		case err == nil:
		case sqlguard.MySQL.Refused(err):
			return t.s.failed(err, false)
		default: // the handler may have committed the transaction by itself, so its writes may be applied
			return t.s.lost(err)
		}
	}
	if t.ifEnded != nil && t.guard.WroteBeforeMark() {
		c.Expect = store.Expect{Fence: t.ifEnded.Next.Fence, Nonce: t.ifEnded.Next.Nonce}
	}
	switch {
	case t.id.IsZero() && (c.Expect.Fence != 0 || c.Next.State == store.StateAbsent):
		return t.replaceMySQL(ctx, c)
	case t.id.IsZero():
		if err := t.claimNowMySQL(ctx, c.ID); err != nil {
			return err
		}
	}
	if err := t.s.checkSize(ctx, t.tx, sizeMySQL(c)); err != nil {
		return err
	}
	if t.recordIsMissing() {
		return t.insertMySQL(ctx, c)
	}
	finish := fill(mysqlRelease, c.ID.Scope, c.ID.Key)
	if c.Next.State != store.StateAbsent {
		finish = fill(mysqlFinish, mysqlRecord(c)...)
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

// insertMySQL inserts the record of the claimed operation, or arranges that it is sent together with COMMIT.
func (t *txn) insertMySQL(ctx context.Context, c store.Change) error {
	if c.Next.State == store.StateAbsent {
		return nil // no record exists, and none is written
	}
	for _, statement := range t.replaceExpired(c.ID, insertMySQL(c)) {
		if t.s.several {
			t.guard.Last(sqlguard.Statement{Text: statement})
			continue
		}
		if _, err := t.tx.ExecContext(ctx, statement); err != nil {
			return t.recordFailed(err)
		}
	}
	return nil
}

// claimNowMySQL claims an operation at the end of a transaction without a claim, in the same way as a join.
func (t *txn) claimNowMySQL(ctx context.Context, id store.ID) error {
	j := &joined{s: t.s, caller: t.tx, guard: t.guard, id: id, name: t.s.joinName()}
	if err := j.savepoint(ctx); err != nil {
		return t.s.failed(err, false)
	}
	if err := j.reclaimMySQL(ctx); err != nil {
		return err
	}
	if err := j.release(ctx); err != nil {
		return t.s.failed(err, false)
	}
	return nil
}

const claimLost = "the handler has changed the row of its own operation in once_operation"

// swapMySQL does a Swap of an operation that must be absent. It claims the operation as Begin does.
func (s *Store) swapMySQL(ctx context.Context, c store.Change) (store.Record, error) {
	t, rec, err := s.claimMySQL(ctx, store.BeginOptions{ID: c.ID})
	switch {
	case err != nil:
		return store.Record{}, err
	case t == nil:
		return rec, &store.Error{Kind: store.KindTaken, Err: errExpect}
	}
	// The caller must not cancel a COMMIT.
	t.stop()
	if err := t.Commit(ctx, c); err != nil {
		return store.Record{}, err
	}
	return c.Next, nil
}

// replaceMySQL changes a record that must exist.
func (t *txn) replaceMySQL(ctx context.Context, c store.Change) error {
	var onReplica bool
	id := []any{c.ID.Scope, c.ID.Key}
	expected := fill(mysqlExpected, append(id, c.Expect.Fence, c.Expect.LeaseExpired, len(c.Expect.Nonce) == 0, c.Expect.Nonce,
		t.conn != nil)...) // a join may run inside a handler, whose claim has no record
	if c.Expect.LeaseExpired {
		expected += " nowait"
	}
	err := t.tx.QueryRowContext(ctx, expected).Scan(&onReplica)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &store.Error{Kind: store.KindTaken, Err: errExpect}
	case c.Expect.LeaseExpired && isLocked(err): // its owner has locked it in an open transaction, or another caller is taking it over
		return &store.Error{Kind: store.KindTaken, Err: errors.Join(errExpect, err)}
	case err != nil: // a lock that was not granted in time says nothing about the record
		return t.s.failed(err, false)
	case onReplica:
		return t.s.down(errReplica)
	}
	if err := t.s.checkSize(ctx, t.tx, sizeMySQL(c)); err != nil {
		return err
	}
	var change string
	switch {
	case c.Next.State == store.StateAbsent:
		change = fill(mysqlDelete, id...)
	case c.KeepRequest:
		change = fill(mysqlNarrow, mysqlRecord(c)...)
	default:
		change = fill(mysqlUpdate, mysqlRecord(c)...)
	}
	if _, err := t.tx.ExecContext(ctx, change); err != nil {
		return t.s.failed(err, false)
	}
	return nil
}

// countHeldMySQL locks the rows of the leases that are still held, in the order of holds, and counts them.
func (t *txn) countHeldMySQL(ctx context.Context, holds []store.Hold) (n int, err error) {
	held, err := collectHolds(ctx, t.tx, heldMySQL(holds)+" lock in share mode")
	return len(held), err
}

// heldMySQL returns a query for the leases that are still held. It reads the rows one by one: see thoseMySQL.
func heldMySQL(holds []store.Hold) string {
	those, values := holdsMySQL(holds)
	return fill("select o.scope, o.`key`, o.fence, o.claim from "+those, values...)
}

func holdsMySQL(holds []store.Hold) (text string, values []any) {
	for _, h := range holds {
		values = append(values, h.ID.Scope, h.ID.Key, h.Fence, h.Nonce)
	}
	return "(select ? as s, ? as k, ? as f, ? as c" + strings.Repeat(" union all select ?, ?, ?, ?", len(holds)-1) +
		") those " + mysqlByKey + " and o.state = 1 and o.fence = those.f and o.claim = those.c", values
}

// collectHolds reads rows with a scope, a key, a fence and a nonce.
func collectHolds(ctx context.Context, from querier, query string, args ...any) (holds []store.Hold, err error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var h store.Hold
		if err := rows.Scan(&h.ID.Scope, &h.ID.Key, &h.Fence, &h.Nonce); err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	return holds, rows.Err()
}

// checkMySQL checks that the server meets the requirements of the store, and detects the abilities of the server.
func (s *Store) checkMySQL(ctx context.Context) error {
	db := s.db
	if err := checkMode(ctx, db); err != nil {
		return err
	}
	var autocommit bool
	var packet int64
	if err := db.QueryRowContext(ctx, "select @@autocommit, @@max_allowed_packet, coalesce(database(), '')").Scan(&autocommit, &packet, &s.schema); err != nil {
		return err
	}
	s.packet.Store(packet)
	if !autocommit {
		return errors.New("autocommit is off, so each read of the store would leave a transaction open. Try: autocommit=1 in the data source name")
	}
	var name, level string
	if err := db.QueryRowContext(ctx, "show variables where variable_name in ('tx_isolation', 'transaction_isolation')").Scan(&name, &level); err != nil {
		return err
	}
	if level == "READ-UNCOMMITTED" {
		return fmt.Errorf("%s is %s, so the store would read uncommitted records and treat running operations as done. Try: READ-COMMITTED", name, level)
	}
	s.serializable = level == "SERIALIZABLE"
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(dc any) (err error) {
		session, _ := sqlguard.SessionOf(dc, sqlguard.MySQL)
		if s.compound, err = session.HasCompounds(ctx); err == nil {
			s.several, err = session.TakesSeveral(ctx)
		}
		return err
	})
}

// checkMode refuses sessions of MariaDB in which an empty text is NULL.
func checkMode(ctx context.Context, session interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) error {
	var mode string
	if err := session.QueryRowContext(ctx, "select @@sql_mode").Scan(&mode); err != nil {
		return err
	}
	if strings.Contains(mode, "EMPTY_STRING_IS_NULL") {
		return errors.New("sql_mode contains EMPTY_STRING_IS_NULL, and the statements of the store do not work with this mode. Try: a sql_mode without EMPTY_STRING_IS_NULL in the data source name")
	}
	return nil
}
