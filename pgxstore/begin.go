package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// claim is what the first round trip has brought.
type claim struct {
	start   time.Time // of the transaction
	granted bool
	row     row
	late    bool // for what is absent
}

// begin sends BEGIN, the claim and the look-up in one round trip.
func (s *Store) begin(ctx context.Context, ask store.Ask) (store.Txn[pgx.Tx], store.Record, error) {
	ask.First = ask.First && ask.Until.IsZero()
	conn, err := s.acquire(ctx, ask.Timeouts.Acquire)
	if err != nil {
		return nil, store.Record{}, err
	}
	handed := false
	defer func() {
		if !handed { // somebody's tracer has panicked
			conn.Release()
		}
	}()
	b := make(trip, 0, 4)
	b.queue(beginText[ask.Isolation])
	queueClaim(ctx, &b, ask)
	br := s.send(ctx, conn.Conn(), b)
	c, err := readClaim(br, len(b), ask)
	if e := br.Close(); err == nil {
		err = e
	}
	t := &txn{s: s, conn: conn, raw: session{conn: conn.Conn()}, claim: c}
	t.user = tx{Tx: &t.raw, root: &t.shared}
	handed = true
	switch {
	case err != nil:
		if conn.Conn().IsClosed() {
			err = &brokenError{err}
		}
		t.abandon(ctx)
		return nil, store.Record{}, down(err)
	case ask.ID.IsZero():
		return t, store.Record{}, nil
	}
	rec := c.row.live()
	switch {
	case rec.State == store.Done && ask.Durable:
		return nil, rec, t.synced(ctx)
	case rec.State == store.Absent && c.granted && c.late:
		t.abandon(ctx) // it holds the claim
		return nil, rec, stale()
	case rec.State == store.Absent && c.granted:
		return t, rec, nil
	case rec.State == store.Absent:
		rec = store.Record{State: store.Running} // by the transaction that has the lock
	}
	go t.abandon(ctx) // the caller need not wait for the answer to ROLLBACK
	return nil, rec, nil
}

func queueClaim(ctx context.Context, b *trip, ask store.Ask) {
	queueBounds(b, budget(ctx, ask.Timeouts.Statement), ask.Timeouts)
	if ask.ID.IsZero() {
		return
	}
	b.queue(pgsql.Lock, pgsql.LockID(ask.ID))
	if !ask.First {
		b.queue(pgsql.Read, ask.ID.Scope, ask.ID.Key)
	}
	if !ask.Until.IsZero() {
		b.queue(pgsql.Late, ask.Until)
	}
}

func queueBounds(b *trip, statement time.Duration, t store.Timeouts) {
	if statement > 0 {
		b.queue(pgsql.Budget, pgsql.Bound(statement))
	}
	if t.Lock > 0 {
		b.queue(pgsql.LockTimeout, pgsql.Bound(t.Lock))
	}
	if t.Idle > 0 {
		b.queue(pgsql.IdleTimeout, pgsql.Bound(t.Idle))
	}
}

// readClaim reads the answers to what queueClaim has queued, the last ones of n.
func readClaim(br pgx.BatchResults, n int, ask store.Ask) (c claim, err error) {
	front := n // BEGIN or a savepoint, and the budget
	switch {
	case ask.ID.IsZero():
	case ask.First:
		front--
	default:
		front -= 2
	}
	if !ask.Until.IsZero() {
		front--
	}
	for range front {
		if _, err := br.Exec(); err != nil {
			return c, err
		}
	}
	if ask.ID.IsZero() {
		return c, nil
	}
	if err := br.QueryRow().Scan(&c.start, &c.granted); err != nil || ask.First {
		return c, err
	}
	c.row, err = scan(br.QueryRow())
	if err == pgx.ErrNoRows { //nolint:errorlint // pgx returns it bare
		err = nil
	}
	if err != nil || ask.Until.IsZero() {
		return c, err
	}
	return c, br.QueryRow().Scan(&c.late)
}

// budget is the time for a statement: what the caller allows, and what ctx leaves less a
// little, so that it is the server that says no, and the connection survives.
func budget(ctx context.Context, allowed time.Duration) time.Duration {
	deadline, _ := ctx.Deadline()
	return budgetUntil(deadline, allowed)
}

// budgetUntil is budget up to a deadline; zero: there is none.
func budgetUntil(deadline time.Time, allowed time.Duration) time.Duration {
	if deadline.IsZero() {
		return allowed
	}
	left := max(time.Millisecond, time.Until(deadline)-20*time.Millisecond)
	if allowed > 0 {
		left = min(left, allowed)
	}
	return left
}

// acquire waits for a connection of the pool.
func (s *Store) acquire(ctx context.Context, patience time.Duration) (*pgxpool.Conn, error) {
	own := ctx
	if patience > 0 {
		var cancel context.CancelFunc
		own, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	conn, err := s.pool.Acquire(own)
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no connection of the pool was free or could be made within %v: %w. Try: more connections, or shorter handlers", patience, err)
	}
	if err != nil {
		return nil, down(err)
	}
	return conn, nil
}

// synced ends a transaction that has found a record by a commit that waits for the
// synchronous standby: everything before it is then as durable as it is.
func (t *txn) synced(ctx context.Context) error {
	defer t.conn.Release() // as in abandon
	var b trip
	b.queue(pgsql.Synced)
	b.queue(commit)
	if err := errors.Join(t.s.send(ctx, t.conn.Conn(), b).Close(), ctx.Err()); err != nil { // as in run
		t.abandon(ctx)
		return down(err)
	}
	t.closed()
	return nil
}

// abandon rolls back, cancelled or not, and gives the connection back. A pool
// drops a connection whose transaction is still open.
func (t *txn) abandon(ctx context.Context) {
	defer t.conn.Release() // also if somebody's tracer panics
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if t.conn.Conn().PgConn().TxStatus() != 'I' {
		_ = t.raw.Rollback(ctx)
	}
	t.closed()
}

// closed gives the connection back after the end has travelled with other statements.
func (t *txn) closed() {
	t.raw.closed()
	t.conn.Release()
}
