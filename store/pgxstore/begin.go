package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// lookup holds the answers to the first round trip of a transaction.
type lookup struct {
	id    store.ID  // the operation; zero if nothing is claimed
	start time.Time // when the transaction began, by the clock of the server
	// granted is true if this transaction holds the claim.
	granted  bool
	recovery bool // the server is a standby
	watched  bool // the transaction is SERIALIZABLE, so the server tracks its reads: see serializable.go
	row      row
	late     bool // an operation without a record must not be executed, because StaleAfter has passed
}

// begin sends BEGIN, the claim and the look-up in one round trip.
func (s *Store) begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[pgx.Tx], store.Record, error) {
	// StaleAfter only applies if no record exists, so it needs the look-up.
	opts.First = opts.First && opts.StaleAfter.IsZero()
	conn, err := s.acquire(ctx, opts)
	if err != nil {
		return nil, store.Record{}, err
	}
	handed := false
	answer := awaitAnswer(conn.Conn(), answerTime(opts.Timeouts))
	defer func() {
		if !handed { // a tracer has panicked
			_ = answer.stop(nil)
			conn.Release()
		}
	}()
	b, read, lookedUp := make(pipeline, 0, 4), pgsql.Read, s.looksUpFirst(opts)
	if lookedUp {
		b, read = lookUp(ctx, opts), ""
	}
	b.queue(beginText[opts.Isolation])
	s.queueName(&b, opts.ID)
	queueClaim(ctx, &b, opts, read)
	br := s.send(ctx, conn.Conn(), b)
	c, err := readLookup(br, b, opts.ID)
	if e := br.Close(); err == nil {
		err = e
	}
	err = answer.stop(err)
	t := &txn{s: s, conn: conn, raw: session{conn: conn.Conn(), answerTime: statementTime(opts.Timeouts)}, seen: c}
	t.user = tx{Tx: &t.raw, root: &t.shared}
	t.shared.refusal = opts.Refuse
	handed = true
	rec := c.row.live()
	switch {
	case c.recovery && (rec.State != store.StateDone || opts.Durable):
		// A standby lags behind, so a missing record proves nothing. A done record may be replayed, unless it
		// must be durable.
		_ = conn.Conn().Close(ctx) // so that the pool connects again, perhaps to the primary
		err = pgsql.ErrRecovery
	case refusedByStandby(ctx, conn.Conn(), err):
		err = pgsql.ErrRecovery
	case c.watched && !lookedUp && looksUp(opts):
		// This answer shows that SERIALIZABLE is the default level of the database. From now on, the look-up is sent
		// before BEGIN.
		s.watched.Store(true)
		t.abandon(ctx)
		return s.begin(ctx, opts)
	}
	switch {
	case err != nil:
		if conn.Conn().IsClosed() && !silent(err) {
			// The connection was broken, so Begin tries another one. After a silent server Begin does not try again,
			// because each connection leads to the same server.
			err = &brokenError{err}
		}
		t.abandon(ctx)
		return nil, store.Record{}, down(err)
	case opts.ID.IsZero():
		return t, store.Record{}, nil
	}
	switch {
	case rec.State == store.StateDone && opts.Durable:
		// The record may come from a commit that still waits for the synchronous standby.
		return nil, rec, t.synced(ctx, answerTime(opts.Timeouts))
	case rec.State == store.StateAbsent && c.granted && c.late:
		t.abandon(ctx) // the claim is held, so the caller waits for the rollback
		return nil, rec, stale()
	case rec.State == store.StateAbsent && c.granted:
		return t, rec, nil
	case rec.State == store.StateAbsent:
		rec = store.Record{State: store.StateRunning} // by the transaction that holds the lock
	}
	go t.abandon(ctx) // in another goroutine, because the caller need not wait for the answer to ROLLBACK
	return nil, rec, nil
}

// queueClaim queues the claim, and then the look-up with the text read, if read is not empty.
func queueClaim(ctx context.Context, b *pipeline, opts store.BeginOptions, read string) {
	queueBounds(b, budget(ctx, opts.Timeouts.Statement), opts.Timeouts)
	if opts.ID.IsZero() {
		b.queue(pgsql.Start)
		return
	}
	// The lock comes first. At READ COMMITTED, the look-up then sees the commit of the previous holder.
	b.queue(pgsql.Lock, pgsql.LockID(opts.ID))
	if looksUp(opts) && read != "" {
		b.queue(read, opts.ID.Scope, opts.ID.Key)
	}
	if !opts.StaleAfter.IsZero() {
		// The check comes after the look-up, because the record may expire between the two statements.
		b.queue(pgsql.Late, opts.StaleAfter)
	}
}

// looksUp reports whether the transaction needs a look-up.
func looksUp(opts store.BeginOptions) bool { return !opts.ID.IsZero() && !opts.First }

// queueBounds queues the statement that sets the timeouts of the transaction.
func queueBounds(b *pipeline, statement time.Duration, t store.Timeouts) {
	switch {
	case t.Lock > 0 || t.Idle > 0:
		b.queue(pgsql.Bounds, pgsql.Bound(statement), pgsql.Bound(t.Lock), pgsql.Bound(t.Idle))
	case statement > 0:
		b.queue(pgsql.Budget, pgsql.Bound(statement))
	}
}

// readLookup reads the answers to the pipeline sent, which claims the operation id.
func readLookup(br pgx.BatchResults, sent pipeline, id store.ID) (c lookup, err error) {
	c.id = id
	for i := 0; i < len(sent) && err == nil; i++ {
		switch sent[i].sql {
		case pgsql.Lock:
			err = br.QueryRow().Scan(&c.start, &c.granted, &c.recovery, &c.watched)
		case pgsql.Start:
			err = br.QueryRow().Scan(&c.start)
		case pgsql.Read, pgsql.ReadUnwatched:
			if c.row, err = scan(br.QueryRow()); err == pgx.ErrNoRows { //nolint:errorlint // pgx returns it bare
				err = nil
			}
		case pgsql.Late:
			err = br.QueryRow().Scan(&c.late)
		default:
			_, err = br.Exec()
		}
	}
	return c, err
}

// budget returns the timeout of a statement: the smaller of allowed and the rest of the time of ctx, less 20 ms.
func budget(ctx context.Context, allowed time.Duration) time.Duration {
	deadline, _ := ctx.Deadline()
	return budgetUntil(deadline, allowed)
}

// budgetUntil returns the timeout of a statement that must end before deadline. A zero deadline means no limit.
func budgetUntil(deadline time.Time, allowed time.Duration) time.Duration {
	if deadline.IsZero() {
		return allowed
	}
	// The server gets 20 ms less than the client waits. So the server ends the statement first, and the connection
	// survives. The minimum is 1 ms, because 0 means no limit to the server.
	left := max(time.Millisecond, time.Until(deadline)-20*time.Millisecond)
	if allowed > 0 {
		left = min(left, allowed)
	}
	return left
}

// acquire waits for a connection of the pool.
func (s *Store) acquire(ctx context.Context, opts store.BeginOptions) (*pgxpool.Conn, error) {
	own, patience := ctx, opts.Timeouts.Acquire
	if patience > 0 {
		var cancel context.CancelFunc
		own, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	conn, err := s.pooled(own, opts.Waits)
	// The time of Timeouts.Acquire has ended before the time of the caller, so the pool is the reason.
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the pool had no free connection and could not open a new connection within %v: %w. Try: more connections, or shorter handlers", patience, err)
	}
	if err != nil {
		return nil, down(err)
	}
	probed := false
	defer func() {
		if !probed { // also if a tracer has panicked
			conn.Release()
		}
	}()
	if err := s.probe(own, conn.Conn()); err != nil {
		switch {
		case own.Err() != nil && ctx.Err() == nil:
			// The pool has given a connection, and the server behind it is silent.
			err = &store.Error{Kind: store.KindUnavailable, Err: &silentError{patience, err}}
		case conn.Conn().IsClosed() && own.Err() == nil:
			err = &store.Error{Kind: store.KindRetry, Err: &brokenError{err}} // the connection broke while it was idle
		}
		return nil, err
	}
	probed = true
	return conn, nil
}

// pooled acquires a connection of the pool. It adds the time of the wait to waits, if waits is not nil.
func (s *Store) pooled(ctx context.Context, waits *waits.Waits) (*pgxpool.Conn, error) {
	if waits != nil {
		defer func(since time.Time) { waits.Acquire += time.Since(since) }(time.Now())
	}
	return s.pool.Acquire(ctx)
}

// synced ends a transaction that has found a record, with a commit that waits for the synchronous standby. Then
// every earlier commit is as durable as this commit. The wait is at most limit.
func (t *txn) synced(ctx context.Context, limit time.Duration) error {
	defer t.conn.Release() // as in abandon
	answer := awaitAnswer(t.conn.Conn(), limit)
	var b pipeline
	b.queue(pgsql.Synced)
	b.queue(commit)
	err := errors.Join(t.s.send(ctx, t.conn.Conn(), b).Close(), ctx.Err()) // a cancelled wait looks like a success: see results
	if err = answer.stop(err); err != nil {
		t.abandon(ctx)
		return down(err)
	}
	t.closed()
	return nil
}

// abandonTime is how long a rollback may take if only the transaction must be ended.
const abandonTime = 5 * time.Second

// abandon rolls the transaction back, even if ctx has ended, and returns the connection to the pool. If the
// transaction is still open after that, the pool closes the connection.
func (t *txn) abandon(ctx context.Context) {
	defer t.conn.Release() // also if a tracer panics
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	if t.conn.Conn().PgConn().TxStatus() != 'I' {
		_ = t.raw.Rollback(ctx)
	}
	t.closed()
}

// closed returns the connection to the pool. The statement that ends the transaction was sent already.
func (t *txn) closed() {
	t.raw.closed()
	t.conn.Release()
}

// Begin implements [store.Store]. If a connection turns out to be broken, for example because the server has
// restarted since the connection was last used, Begin tries again on another connection. To send BEGIN again
// is safe, because the statements that begin a transaction change nothing.
func (s *Store) Begin(ctx context.Context, opts store.BeginOptions) (txn store.Transaction[pgx.Tx], rec store.Record, err error) {
	if _, known := beginText[opts.Isolation]; !known {
		return nil, rec, &store.Error{Kind: store.KindMisused, Err: fmt.Errorf("pgxstore: the isolation level %d does not exist. Try: store.ReadCommitted, store.RepeatableRead or store.Serializable", opts.Isolation)}
	}
	if err := s.unsendable(opts.ID); err != nil {
		return nil, rec, err
	}
	if opts.Batch {
		txn, err = s.beginBatch(ctx, opts)
		return txn, rec, err
	}
	// The claim is sent together with a statement of the handler. StaleAfter needs a look-up, so it excludes this way.
	if s.prepares && opts.StaleAfter.IsZero() && (opts.First || s.mayBeOptimistic(opts)) {
		txn, err = s.beginFirst(ctx, opts)
		return txn, rec, err
	}
	txn, rec, err = s.begin(ctx, opts)
	if !isBroken(ctx, err) {
		return txn, rec, err
	}
	// After a restart of the server, each idle connection may be broken. The additional try is for a new connection.
	for tries := 1 + s.pool.Stat().IdleConns(); tries > 0 && isBroken(ctx, err); tries-- {
		txn, rec, err = s.begin(ctx, opts)
	}
	return txn, rec, err
}

// brokenError says that the connection of a transaction broke, so that another connection may work.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// isBroken reports whether Begin should try another connection.
func isBroken(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && errors.As(err, new(*brokenError))
}
