package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

const commit = "COMMIT"

// txn is an open transaction, together with its claim.
type txn struct {
	s      *Store
	conn   *pgxpool.Conn
	raw    session
	user   tx
	shared shared
	seen   lookup

	optimistic bool // the look-up is delayed until the first statement of the handler
}

func (t *txn) Tx() pgx.Tx { return &t.user }

// ClaimsByCommit implements [store.CommitClaimer].
func (t *txn) ClaimsByCommit() bool { return t.s.byCommit.Load() }

// IsOptimistic implements [ability.Optimist].
func (t *txn) IsOptimistic() bool { return t.optimistic }

// Statements implements [ability.Counter].
func (t *txn) Statements() int { return int(t.shared.statements.Load()) }

// Rollback also detects that the handler has sent "commit; begin". Then the rollback ends another transaction, and does
// not undo the writes of the handler.
func (t *txn) Rollback(ctx context.Context) error {
	defer t.conn.Release() // also if a tracer panics
	if t.end() {
		return &store.Error{Kind: store.KindUnavailable, Err: errUnderWay}
	}
	pc := t.conn.Conn().PgConn()
	switch {
	case t.raw.first != nil: // nothing was sent
		t.closed()
		return nil
	case t.raw.refused != nil:
		t.abandon(ctx)
		return t.raw.refused
	}
	if pc.IsClosed() || pc.IsBusy() || pc.TxStatus() != 'T' || t.seen.start.IsZero() { // the server cannot be asked for the start of its transaction, or no start is known
		ended := !pc.IsClosed() && pc.TxStatus() == 'I'
		err := t.raw.Rollback(ctx)
		t.closed()
		return rolledBack(ended, err)
	}
	var b pipeline
	b.queue(pgsql.Start)
	b.queue("ROLLBACK")
	br := t.s.send(ctx, t.conn.Conn(), b)
	var now time.Time
	err := br.QueryRow().Scan(&now)
	if e := br.Close(); err == nil {
		err = e
	}
	if err != nil {
		t.abandon(ctx)
		return rolledBack(false, err)
	}
	t.closed()
	return rolledBack(!now.Equal(t.seen.start), nil)
}

// end excludes the handler. If a call of the handler is running, end removes the connection from the pool and closes it.
// This undoes everything, and the store does not use the connection any more.
func (t *txn) end() (underWay bool) {
	t.user.over.Store(true)
	if underWay = t.shared.end(); underWay {
		cut(t.conn.Hijack().PgConn())
	}
	return underWay
}

// rolledBack returns the error of Rollback. The parameter ended says that the handler has ended the transaction.
func rolledBack(ended bool, err error) error {
	switch {
	case ended:
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	case err != nil:
		return &store.Error{Kind: store.KindUnavailable, Err: err}
	}
	return nil
}

var errEnded = errors.New("the handler has ended the transaction itself. Try: return an error to roll back, or a value to commit")

// Commit sends the record, the appended statements and COMMIT in one round trip.
func (t *txn) Commit(ctx context.Context, c store.Change) error {
	defer t.conn.Release() // as in Rollback
	if t.end() {
		return &store.Error{Kind: store.KindMisused, Err: errUnderWay}
	}
	// If the transaction is not open yet, it is opened in a separate round trip. If the claim were sent with COMMIT and
	// the answer were lost, nothing could show whether the COMMIT was applied.
	_, err := t.raw.open(ctx, statement{})
	if err == nil {
		err = unfit(t.conn.Conn().PgConn(), &t.user)
	}
	switch {
	case store.KindOf(err) == store.KindEnded:
		t.closed()
		return err
	case err != nil:
		t.abandon(ctx)
		return err
	}
	b := make(pipeline, 0, 4)
	queueChange(&b, c, &t.seen) // the record is first, so that a duplicate fails before any other write
	queueWrites(&b, t.user.tail, c.Writes)
	b.queue(commit)
	conn := t.conn.Conn()
	br, err := t.s.sendPrepared(ctx, ctx, conn, b)
	if err != nil {
		err = unsent(conn, err, len(t.user.tail) > 0)
		t.abandon(ctx)
		return err
	}
	failed, tag, err := results(ctx, br, b)
	// The server answers the COMMIT of a failed transaction with ROLLBACK, and not with an error.
	if err == nil && tag.String() != commit {
		err = errNotCommitted(tag)
	}
	if err != nil {
		err = t.s.failure(ctx, conn, b, failed, err)
		t.abandon(ctx)
		return err
	}
	t.closed()
	return nil
}

// unfit returns, without asking the server, the reason why a transaction must not commit. It returns nil if there is
// no reason.
func unfit(pc *pgconn.PgConn, user *tx) error {
	kind := store.KindMisused
	var err error
	switch {
	case pc.IsClosed():
		kind, err = store.KindUnavailable, errors.New("the connection was lost before COMMIT was sent")
	case pc.IsBusy():
		err = errOpen
	case pc.TxStatus() == 'I':
		kind, err = store.KindEnded, errEnded
	case user.err == nil && pc.TxStatus() == 'E':
		kind, err = store.KindAborted, errors.New("a statement has failed, but the handler has returned no error. Try: return the error, or put the statement into a savepoint")
	default:
		return unfitUse(user)
	}
	return &store.Error{Kind: kind, Err: err}
}

var errOpen = errors.New("the handler has returned without closing its rows or batch results. Try: close them before the handler returns")

// unfitUse returns an error if the handler has used the transaction in a way that excludes a commit.
func unfitUse(user *tx) error {
	switch {
	case user.root.collided():
		return errCollided
	case user.err != nil:
		return &store.Error{Kind: store.KindAborted, Err: fmt.Errorf("a statement has failed, but the handler has returned no error: %w", user.err)}
	case user.open > 0:
		return &store.Error{Kind: store.KindMisused, Err: errors.New("the handler has returned with an open savepoint. Try: commit or roll back each transaction that tx.Begin returns")}
	}
	return nil
}
