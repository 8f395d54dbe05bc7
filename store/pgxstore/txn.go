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

// txn is an open transaction and its claim.
type txn struct {
	s      *Store
	conn   *pgxpool.Conn
	raw    session
	user   tx
	shared shared
	seen   lookup

	optimistic bool // it was begun with a delayed look-up
}

func (t *txn) Tx() pgx.Tx { return &t.user }

// ClaimsByCommit implements [store.CommitClaimer].
func (t *txn) ClaimsByCommit() bool { return t.s.byCommit.Load() }

// IsOptimistic implements [ability.Optimist].
func (t *txn) IsOptimistic() bool { return t.optimistic }

// Statements implements [ability.Counter].
func (t *txn) Statements() int { return int(t.shared.statements.Load()) }

// Rollback also finds out whether the handler has sent "commit; begin". Then this is another transaction, and
// its rollback does not undo the handler's writes.
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
	if pc.IsClosed() || pc.IsBusy() || pc.TxStatus() != 'T' || t.seen.start.IsZero() { // the server cannot be asked when its transaction began, or there is nothing to compare
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

// end excludes the handler. If a call of the handler is in progress, the connection is removed from the pool
// and closed, which undoes everything: the store does not use it any more.
func (t *txn) end() (underWay bool) {
	t.user.over.Store(true)
	if underWay = t.shared.end(); underWay {
		cut(t.conn.Hijack().PgConn())
	}
	return underWay
}

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
	// The transaction is opened in a round trip of its own: if its claim were sent with COMMIT and the answer
	// were lost, nothing could show whether both were applied.
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
	queueChange(&b, c, &t.seen) // first, so that a duplicate is known before any other write
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
	// The COMMIT of a failed transaction is answered by ROLLBACK, and not by an error.
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

// unfit returns, without asking the server, why a transaction cannot be committed.
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

// unfitUse returns an error if the handler has used a transaction so that it must not commit.
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
