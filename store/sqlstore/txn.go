package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/sql/sqlitegroup"
	"github.com/oncelib/once/internal/sql/txlimit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// txn is an open transaction, together with its claim.
type txn struct {
	s             *Store
	id            store.ID // of the claimed operation; zero: no operation is claimed
	conn          *sql.Conn
	tx            *sql.Tx
	guard         *sqlguard.Txn
	seen          lookup
	ownStatements int // the number of statements of the store, before the statements of the handler
	cancel        context.CancelFunc
	restore       string        // restores the timeouts of the session; "": they have not changed
	stop          func() bool   // keeps the caller's context from cancelling the transaction
	freed         bool          // the connection and the place in the queue were given back
	blind         bool          // MySQL: the claim is sent with the first statement, and the record was not looked up
	batch         bool          // MySQL: the writes of the change are sent with COMMIT
	ifEnded       *store.Change // MySQL: the change that was written before a statement which may end the transaction

	hasTurn bool                // SQLite: other writers of the file wait for this transaction
	member  *sqlitegroup.Member // SQLite: the membership in a group; nil outside of a group
}

// began passes the transaction to the handler.
func (t *txn) began() {
	t.stop()
	t.ownStatements = t.guard.Statements()
	t.guard.ForbidCommit()
}

// limit rolls the transaction back after it was idle for too long, as a server would do. This frees the connection and
// the file immediately. The handler gets an error when it uses the transaction again.
func (t *txn) limit(opts store.BeginOptions) {
	t.guard.Limit(txlimit.Limits{Idle: opts.Timeouts.Idle, Statement: opts.Timeouts.Statement}, func() {
		_ = t.tx.Rollback() // the transaction may have ended already
		t.free()
	})
}

func (t *txn) Tx() *sql.Tx { return t.tx }

// ClaimsByCommit implements [store.CommitClaimer].
func (t *txn) ClaimsByCommit() bool { return t.s.byCommit || t.batch }

// Statements implements [ability.Counter].
func (t *txn) Statements() int { return t.guard.Statements() - t.ownStatements }

// Ended implements [ability.Expiring].
func (t *txn) Ended() <-chan struct{} { return t.guard.Ended() }

// OnEnd implements [ability.Expiring].
func (t *txn) OnEnd(f func()) (stop func() bool) { return t.guard.OnEnd(f) }

func (t *txn) Rollback(context.Context) error {
	refused := t.notOpened()
	err := t.end()
	switch {
	case refused != nil:
		return refused
	case errors.As(err, new(*store.Error)):
		return err
	case mayBeApplied(err):
		return &store.Error{Kind: store.KindEnded, Err: err}
	case err != nil && !errors.Is(err, sql.ErrTxDone) && t.guard.Opaque(): // the transaction may have committed
		return &store.Error{Kind: store.KindLost, Err: err}
	case err != nil && !errors.Is(err, sql.ErrTxDone):
		return &store.Error{Kind: store.KindUnavailable, Err: err}
	}
	return nil
}

// mayBeApplied reports whether err says that a part of the transaction may have been applied without the commit of the
// store.
func mayBeApplied(err error) bool {
	return errors.Is(err, sqlguard.ErrEnded) || errors.Is(err, sqlguard.ErrIncomplete)
}

// end rolls the transaction back, and returns the connection to the pool.
func (t *txn) end() error {
	defer t.release()
	t.guard.AllowCommit()
	err := t.tx.Rollback()
	// ROLLBACK only warns if writes to tables without transactions remain.
	err = errors.Join(t.guard.Incomplete(), err)
	switch ended := t.guard.Lift(); {
	case t.member != nil:
		return errors.Join(t.member.RolledBack(), err)
	case ended != nil:
		return &store.Error{Kind: store.KindBusy, Err: ended}
	}
	return err
}

// commit commits. When commit returns, the commit is on the disk.
func (t *txn) commit() error {
	if t.member != nil {
		return t.member.Commit()
	}
	if err := t.guard.Lift(); err != nil {
		return &store.Error{Kind: store.KindBusy, Err: err}
	}
	return t.tx.Commit()
}

func (t *txn) release() {
	t.stop()
	t.cancel()
	_ = t.guard.Lift() // the limit may free the transaction at the same time
	t.free()
}

func (t *txn) free() {
	if t.freed {
		return
	}
	t.freed = true
	if t.s.dialect.name == sqlplane.MySQL && t.s.readOnly(t.guard.Err()) { // another connection may lead to the primary
		sqlguard.Drop(t.conn)
	}
	t.restoreTimeouts()
	if t.member != nil {
		t.member.Leave()
		return
	}
	_ = t.conn.Close() // the pool drops a broken connection
	if t.hasTurn {
		t.s.file.Next()
	}
}

// Commit writes the whole change c, and commits.
func (t *txn) Commit(ctx context.Context, c store.Change) error {
	defer t.release()
	t.guard.AllowCommit()
	err := t.openBlind(ctx)
	if err == nil {
		err = t.write(ctx, c)
	}
	if err == nil {
		if err = t.commit(); err == nil {
			return nil
		}
		err = t.blindly(t.s.lost(err))
	}
	if refused := t.notOpened(); refused != nil {
		err = refused
	}
	switch end := t.end(); { // ErrTxDone if COMMIT was tried
	case errors.As(end, new(*store.Error)): // the error of its group
		err = end
	case mayBeApplied(end):
		err = &store.Error{Kind: store.KindEnded, Err: errors.Join(end, err)}
	case end != nil && !errors.Is(end, sql.ErrTxDone) && t.guard.Opaque(): // the server did not even answer ROLLBACK, and the handler may have committed before
		err = &store.Error{Kind: store.KindLost, Err: err}
	}
	return err
}

// writes runs the writes of a change.
func (s *Store) writes(ctx context.Context, tx *sql.Tx, writes []store.Statement) error {
	for _, w := range sqlplane.InLockOrder(writes) {
		if err := s.checkSize(ctx, tx, largestValue(w.Args)); err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, w.SQL, w.Args...)
		if err != nil {
			return s.failed(err, false)
		}
		if w.Rows == 0 {
			continue
		}
		n, err := r.RowsAffected()
		if err == nil && n != int64(w.Rows) {
			err = fmt.Errorf("%w: %d rows were affected, %d rows are required: %s", store.ErrRows, n, w.Rows, w.SQL)
		}
		if err != nil {
			return &store.Error{Kind: store.KindOther, Err: err}
		}
	}
	return nil
}
