package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// firstAttempt is the BEGIN and the claim of a first attempt, before they are sent. They are sent together with the
// first statement of the handler, without waiting for a look-up. This saves a round trip. If another transaction holds
// the claim, the claim fails and the server skips the statement. An optimistic claim also fails if a record exists.
type firstAttempt struct {
	s        *Store
	opts     store.BeginOptions
	deadline time.Time // the deadline of the context of Begin; zero means no deadline
	// start receives the time when the transaction began.
	start *time.Time
}

// mayBeOptimistic reports whether the look-up may be sent together with the claim and a statement. At SERIALIZABLE
// it may not, because the look-up must be sent before BEGIN.
func (s *Store) mayBeOptimistic(opts store.BeginOptions) bool {
	return opts.Optimistic != nil && !opts.ID.IsZero() && !s.looksUpFirst(opts)
}

// beginFirst gets a connection, and sends nothing.
func (s *Store) beginFirst(ctx context.Context, opts store.BeginOptions) (store.Transaction[pgx.Tx], error) {
	conn, err := s.acquire(ctx, opts)
	if err != nil {
		return nil, err
	}
	t := &txn{s: s, conn: conn, seen: lookup{id: opts.ID}, optimistic: !opts.First}
	t.raw = session{conn: conn.Conn(), answerTime: statementTime(opts.Timeouts), first: &firstAttempt{s: s, opts: opts, start: &t.seen.start}}
	t.raw.first.deadline, _ = ctx.Deadline()
	t.user = tx{Tx: &t.raw, root: &t.shared}
	t.shared.refusal = opts.Refuse
	return t, nil
}

// sentStatement is a statement of the handler that was sent together with the claim.
type sentStatement struct {
	results pgx.BatchResults // the results of this statement only
	trace   queryTrace
}

// open makes sure that the transaction is open. If nothing was sent yet, and first can be part of a pipeline, open
// sends first together with the claim, and returns it as sent. Otherwise sent is nil, and the caller must send first.
func (s *session) open(ctx context.Context, first statement) (sent *sentStatement, err error) {
	f := s.first
	if f == nil {
		return nil, s.refused
	}
	if ctx.Err() != nil { // pgx would not send the statement either
		err = &store.Error{Kind: store.KindOther, Err: fmt.Errorf("pgxstore: a statement was not sent, because its context had ended: %w", ctx.Err())}
		s.traceRefused(ctx, nil, first, err)
		return nil, err
	}
	// Until the claim is answered, no other statement may be sent, by another goroutine or after a panic: it would run
	// outside the transaction.
	s.first, s.refused = nil, errNotOpen
	defer func() {
		if s.refused == errNotOpen { //nolint:errorlint // the identity matters: still this value means that send panicked
			_ = s.conn.Close(ctx) // also for code that uses the connection without the session
		}
	}()
	travels := first.travels()
	if travels {
		sent, err = f.send(ctx, s.conn, first)
		if errors.As(err, new(unsentError)) && !s.conn.IsClosed() && f.s.Classify(err) != store.KindBusy {
			travels = false // the statement cannot be prepared or encoded: pgx sends it alone, and reports a better error
		}
	}
	if !travels {
		sent, err = nil, f.sendAlone(ctx, s.conn)
	}
	s.refuse(ctx, err)
	if s.refused != nil {
		s.traceRefused(ctx, sent, first, s.refused)
		return nil, s.refused
	}
	return sent, nil
}

// traceRefused reports to the tracer that a statement of the handler fails because the transaction is not open. A
// statement that was sent has a span already; any other statement gets a new span.
func (s *session) traceRefused(ctx context.Context, sent *sentStatement, st statement, err error) {
	switch {
	case sent != nil:
		sent.trace.end(pgconn.CommandTag{}, err)
	case st.sql != "":
		traceQuery(ctx, s.conn, st).end(pgconn.CommandTag{}, err)
	}
}

var errNotOpen = error(&store.Error{Kind: store.KindAborted, Err: errors.New("pgxstore: the transaction is not open yet, because its first statement was not answered. Try: one statement at a time")})

// travels reports whether st can be part of a pipeline. A text without arguments may contain several statements.
// A single word is the name of a statement that the user has prepared. Neither can be part of a pipeline.
func (st statement) travels() bool {
	if len(st.args) == 0 || !strings.ContainsAny(st.sql, " \t\r\n") {
		return false
	}
	switch st.args[0].(type) {
	case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryRewriter:
		return false
	}
	return true
}

// unsentError wraps the reason why nothing was sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// begin returns BEGIN and the statements that set the name and the timeouts of the transaction.
func (f *firstAttempt) begin() pipeline {
	b := f.unbounded()
	queueBounds(&b, f.budget(), f.opts.Timeouts)
	return b
}

// unbounded returns BEGIN without the timeouts.
func (f *firstAttempt) unbounded() pipeline {
	b := make(pipeline, 0, 4)
	b.queue(beginText[f.opts.Isolation])
	f.s.queueName(&b, f.opts.ID)
	return b
}

// budget returns the statement timeout that is left now.
func (f *firstAttempt) budget() time.Duration {
	return budgetUntil(f.deadline, f.opts.Timeouts.Statement)
}

// prepare prepares the statement that is sent with the claim, if it is not prepared on the connection yet.
func (f *firstAttempt) prepare(ctx context.Context, conn *pgx.Conn, sql string) error {
	p := preparedOn(conn)
	// Without timeouts, queuePrepared can prepare the statement itself.
	if p.known[sql] != nil || f.opts.Timeouts.Lock == 0 && f.opts.Timeouts.Statement == 0 {
		return nil
	}
	p.trips++
	// An ALTER TABLE may block the preparation, so the timeouts of the coming transaction must apply to it too.
	err := f.s.send(ctx, conn, f.begin()).Close()
	if err == nil {
		_, err = p.get(ctx, conn, sql)
	}
	if conn.PgConn().TxStatus() != 'I' {
		// If the transaction were still open, the BEGIN of the claim would only cause a warning.
		if _, e := conn.Exec(ctx, "rollback"); e != nil {
			_ = conn.Close(ctx)
			err = e
		}
	}
	return err
}

// answerTime returns how long the answer to the claim may take. If a statement of the handler is sent with the
// claim, the time of this statement is added. 0 means no limit.
func (f *firstAttempt) answerTime(withStatement bool) time.Duration {
	limit := answerTime(f.opts.Timeouts)
	if !withStatement || limit == 0 {
		return limit
	}
	if f.opts.Timeouts.Statement == 0 { // the statement has no time limit
		return 0
	}
	return limit + f.opts.Timeouts.Statement
}

// queue prepares the pipeline b, followed by the statements of the handler. Its time is limited, because the
// preparation asks the server, which may be silent.
func (f *firstAttempt) queue(ctx context.Context, conn *pgx.Conn, b pipeline, handlers []statement) (_ *pgconn.Batch, err error) {
	answer := awaitAnswer(conn, f.answerTime(false))
	defer func() { err = answer.stop(err) }()
	for _, st := range handlers {
		if err := f.prepare(ctx, conn, st.sql); err != nil {
			return nil, err
		}
	}
	return f.s.queuePrepared(ctx, conn, append(b, handlers...)) // the pipeline is short, so the result is not nil
}

// send sends BEGIN, the claim and a statement of the handler. It reads the answers to BEGIN and the claim. If st
// was sent, send returns it even with an error, because the end of st must be reported to the tracer. A tracer sees the
// statements up to the claim as a batch, and st as a query. If st cannot be prepared, the tracer sees neither, because
// pgx then runs st and reports it.
func (f *firstAttempt) send(ctx context.Context, conn *pgx.Conn, st statement) (*sentStatement, error) {
	b := f.claim()
	queued, err := f.queue(ctx, conn, b, []statement{st})
	if err != nil {
		return nil, unsentError{err}
	}
	_, batch := traceBatch(ctx, conn, b)
	query := traceQuery(ctx, conn, st)
	all, err := f.exchange(query.ctx, conn, queued, batch, len(b), true)
	return &sentStatement{all, query}, err
}

// sendAlone sends BEGIN and the claim, and reads their answers.
func (f *firstAttempt) sendAlone(ctx context.Context, conn *pgx.Conn) error {
	b := f.claim()
	queued, err := f.queue(ctx, conn, b, nil)
	if err != nil {
		return unsentError{err}
	}
	ctx, batch := traceBatch(ctx, conn, b)
	all, err := f.exchange(ctx, conn, queued, batch, len(b), false)
	if err == nil {
		err = all.Close()
	}
	return err
}

// claim returns BEGIN, the timeouts and the claim, if the transaction claims an operation.
func (f *firstAttempt) claim() pipeline {
	if f.opts.ID.IsZero() { // one statement instead of two, because a step of a lease or a saga has only a few statements
		b := f.unbounded()
		b.queue(pgsql.BoundsStart, pgsql.Bound(f.budget()), pgsql.Bound(f.opts.Timeouts.Lock), pgsql.Bound(f.opts.Timeouts.Idle))
		return b
	}
	b := f.begin()
	if f.opts.First {
		b.queue(pgsql.LockOrFail, pgsql.LockID(f.opts.ID))
	} else {
		b.queue(pgsql.LockAbsentOrFail, pgsql.LockID(f.opts.ID), f.opts.ID.Scope, f.opts.ID.Key)
	}
	return b
}

// exchange sends queued and reads the answers to its first n statements, the last of which is the claim. It
// returns the answers that are not read yet.
func (f *firstAttempt) exchange(ctx context.Context, conn *pgx.Conn, queued *pgconn.Batch, trace *batchTrace, n int, withStatement bool) (_ pgx.BatchResults, err error) {
	answer := awaitAnswer(conn, f.answerTime(withStatement))
	defer func() { err = answer.stop(err) }()
	all := pipelineResults{conn, conn.PgConn().ExecBatch(ctx, queued), trace}
	for i := 0; i < n-1 && err == nil; i++ {
		_, err = all.Exec()
	}
	if err == nil {
		var granted bool
		err = all.QueryRow().Scan(f.start, &granted)
	}
	trace.end(err)
	all.trace = nil
	if err != nil {
		_ = all.Close() // Close would return the same error
		return nil, err
	}
	// The claim is granted only now, so duplicates may learn now that the operation runs.
	if f.opts.Optimistic != nil {
		f.opts.Optimistic()
	}
	return all, nil
}

// refuse sets the error that every later statement of this transaction returns. A nil error opens the transaction.
func (s *session) refuse(ctx context.Context, err error) {
	if err == nil {
		s.refused = nil
		return
	}
	kind := store.KindBusy
	switch pe := serverError(err); {
	case pe != nil && pe.Code == pgsql.DivisionByZero:
		// Another transaction holds the claim, or a record exists. The next try looks the record up.
		kind = store.KindTaken
	case pe != nil && outdated(pe):
		// The tables have changed since the statement was prepared. On another connection it is prepared again.
		kind = store.KindRetry
		_ = s.conn.Close(ctx)
	case refusedByStandby(ctx, s.conn, err):
		kind = store.KindRetry
	case pe != nil && !fatal(pe):
		if pgsql.Classify(pe.Code) == store.KindRetry {
			kind = store.KindRetry
		}
	case silent(err):
	case ctx.Err() == nil:
		kind = store.KindRetry // the connection broke while it was idle; Begin connects again after an error of this kind
	default:
		kind = store.KindOther // the time of the statement is over; the engine knows whether the time of the caller is over, too
	}
	// The server has no open transaction: a later statement of the handler would commit by itself.
	if s.conn.PgConn().TxStatus() == 'I' {
		_ = s.conn.Close(ctx)
	}
	s.refused = &store.Error{Kind: kind, Err: explained(err)}
}

// failed handles the error of a statement that was sent with the claim. pgx does not know the prepared form of
// this statement and would not prepare it again, so failed forgets an outdated form.
func (s *session) failed(ctx context.Context, sql string, err error) error {
	switch pe := serverError(err); {
	case pe == nil:
	case outdated(pe): // no statement of the handler has run yet
		s.refuse(ctx, err)
		return s.refused
	case misfit(pe):
		preparedOn(s.conn).forget(ctx, s.conn.PgConn(), sql)
	}
	return err
}

// firstRows are the rows of a statement that was sent with the claim.
type firstRows struct {
	pgx.Rows
	conn   *pgx.Conn
	sent   *sentStatement
	closed bool
	err    error
}

func (r *firstRows) Conn() *pgx.Conn { return r.conn }

func (r *firstRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Scan ends the rows after an error, as pgx does. Values does the same.
func (r *firstRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

func (r *firstRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// Close can be called several times, even when the connection belongs to another goroutine.
func (r *firstRows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	if err := r.sent.results.Close(); r.Rows.Err() == nil {
		r.err = err
	}
	r.sent.trace.end(r.CommandTag(), r.Err())
}

func (r *firstRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}
