package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// write writes the whole change c in the transaction. After an error, the caller must roll back the transaction, or
// the savepoint of a join.
func (t *txn) write(caller context.Context, c store.Change) error {
	if err := t.guard.Err(); err != nil {
		return &store.Error{Kind: store.KindAborted, Err: fmt.Errorf("a statement has failed, but the handler has returned no error: %w. Try: return the error, or put the statement into a savepoint", err)}
	}
	switch {
	case !t.id.IsZero() && c.ID != t.id:
		return &store.Error{Kind: store.KindMisused, Err: errOtherOperation}
	case !t.id.IsZero() && c.Expect.Fence != 0: // the record was absent at the time of the claim
		return &store.Error{Kind: store.KindTaken, Err: errExpect}
	case c.KeepRequest && c.Expect.Fence == 0:
		return &store.Error{Kind: store.KindMisused, Err: errKeep}
	}
	ctx := t.s.ownContext(caller)
	if t.s.dialect.name == sqlplane.SQLite && len(c.Held) > 0 && t.id.IsZero() {
		// SQLite must write before the first read, as in Join, because the caller's transaction may be a deferred one.
		if err := t.dropExpired(ctx, c.ID); err != nil {
			return err
		}
	}
	before, after := pgsql.HeldAround(c)
	if err := t.checkHeld(ctx, before); err != nil {
		return err
	}
	if !c.ID.IsZero() {
		if err := t.writeRecord(ctx, c); err != nil {
			return err
		}
		if c.Expect.Fence == 0 {
			if err := t.s.checkDeadline(ctx, t.tx, c.StaleAfter); err != nil {
				return err
			}
		}
	}
	if err := t.checkHeld(ctx, after); err != nil {
		return err
	}
	// The writes are sent together with COMMIT.
	if t.batch && t.lastMySQL(c) {
		return nil
	}
	return t.s.writes(caller, t.tx, c.Writes)
}

var (
	errEnded          = errors.New("the handler has committed its transaction, for example with SQL inside a procedure, and has begun another transaction")
	errExpect         = errors.New("another caller has changed the record of the operation")
	errNotHeld        = errors.New("this process no longer owns another operation that the transaction needs")
	errOtherOperation = errors.New("the change is for another operation than the operation that the transaction has claimed. Try: a transaction without a claim")
	errKeep           = errors.New("sqlstore: store.Change.KeepRequest is set, but Expect.Fence is 0, so there is no stored record whose request could be kept. Try: set Expect.Fence to the fence of the stored record")
)

// writeRecord writes the record of c.
func (t *txn) writeRecord(ctx context.Context, c store.Change) error {
	switch {
	case t.s.dialect.name == sqlplane.MySQL:
		return t.writeMySQL(ctx, c)
	case t.id.IsZero():
		return t.swapRecord(ctx, c)
	}
	if t.seen.row.expired {
		// An expired record counts as absent, but its row would make the insert fail.
		if err := t.dropExpired(ctx, c.ID); err != nil {
			return err
		}
	}
	if isAtomic(c) {
		n := c.Next
		_, err := t.tx.ExecContext(ctx, t.s.dialect.insert, c.ID.Scope, c.ID.Key, n.Nonce, n.Fingerprint, int64(n.Result.Status), int64(n.Result.Kind),
			head.Encode(&n.Result), n.Result.Body, millis(c.Retain), t.seen.start, n.Request, text(n.Trace), text(n.Name))
		return t.recordFailed(err)
	}
	if t.s.dialect.name == sqlplane.PostgreSQL {
		// The handler may have sent "commit; begin" without the guard. Then the claim is gone, and the change must be refused.
		if _, err := t.tx.ExecContext(ctx, pgsql.SameTransaction, t.seen.start); err != nil {
			return t.recordFailed(err)
		}
	}
	if c.Next.State == store.StateAbsent {
		return nil // no record exists, and none is written
	}
	return t.swapRecord(ctx, c)
}

// isAtomic reports whether c finishes an operation in the transaction that has claimed it. Such a record has no
// fields of leased work.
func isAtomic(c store.Change) bool {
	n := c.Next
	return n.State == store.StateDone && n.Fence == 1 && n.RecoveryPoint == "" && !n.CallStarted && len(n.Data) == 0
}

// recordFailed classifies the error of a statement that fails if the transaction does not hold the claim any more.
func (t *txn) recordFailed(err error) error {
	switch {
	case err == nil:
		return nil
	case sqlguard.SQLState(err) == pgsql.DivisionByZero:
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	return t.s.failed(err, true)
}

// swapRecord writes a record if the stored record matches the expectation of c. MySQL has other methods.
func (t *txn) swapRecord(ctx context.Context, c store.Change) error {
	d := &t.s.dialect
	args := []any{c.ID.Scope, c.ID.Key}
	var query string
	switch {
	case c.Next.State == store.StateAbsent:
		query = d.swapDelete
	case c.Expect.Fence == 0:
		if t.id.IsZero() {
			// If the transaction holds a claim, writeRecord has already deleted an expired record.
			if err := t.dropExpired(ctx, c.ID); err != nil {
				return err
			}
		}
		query, args = d.swapInsert, append(append(args, pgsql.LockID(c.ID)), fields(c)...)
	case c.KeepRequest:
		query, args = d.swapKeep, append(args, fields(c)...)
	default:
		query, args = d.swapUpdate, append(args, fields(c)...)
	}
	if query != d.swapInsert {
		// Without a row that matches, the update changes nothing.
		args = append(args, c.Expect.Fence, c.Expect.LeaseExpired, nonce(c.Expect.Nonce))
	}
	r, err := t.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return t.s.failed(err, true)
	}
	if n, err := r.RowsAffected(); err != nil || n != 1 {
		return &store.Error{Kind: store.KindTaken, Err: errors.Join(errExpect, err)}
	}
	return nil
}

// nonce returns an expected nonce for the database. NULL means that every nonce is accepted.
func nonce(n []byte) any {
	if len(n) == 0 {
		return nil
	}
	return n
}

// dropExpired deletes the record of an operation if it has expired.
func (t *txn) dropExpired(ctx context.Context, id store.ID) error {
	if _, err := t.tx.ExecContext(ctx, t.s.dialect.expired, id.Scope, id.Key); err != nil {
		return t.s.failed(err, false)
	}
	return nil
}

// checkHeld locks the rows of holds in their order until the transaction ends. It returns an error unless the caller
// holds all of them.
func (t *txn) checkHeld(ctx context.Context, holds []store.Hold) error {
	if len(holds) == 0 {
		return nil
	}
	var n int
	var err error
	switch t.s.dialect.name {
	case sqlplane.PostgreSQL:
		_, err = t.tx.ExecContext(ctx, pgsql.Held, pgsql.Holds(holds), len(holds))
		if n = len(holds); sqlguard.SQLState(err) == pgsql.DivisionByZero {
			// The statement divides by zero if a lease is not held.
			n, err = 0, nil
		}
	case sqlplane.MySQL:
		n, err = t.countHeldMySQL(ctx, holds)
	default:
		n, err = t.countHeld(ctx, holds)
	}
	switch {
	case err != nil:
		return t.s.failed(err, false)
	case n != len(holds):
		return &store.Error{Kind: store.KindTaken, Err: errNotHeld}
	}
	return nil
}

// countHeld counts the leases that are held on SQLite. It needs no locks, because only one transaction can write.
func (t *txn) countHeld(ctx context.Context, holds []store.Hold) (n int, err error) {
	for _, h := range holds {
		var one int
		err := t.tx.QueryRowContext(ctx, sqliteHeld, h.ID.Scope, h.ID.Key, h.Fence, h.Nonce).Scan(&one)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return n, err
		}
		n += one
	}
	return n, nil
}
