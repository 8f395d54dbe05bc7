package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// firstAttempt is BEGIN and the claim of a first attempt, which travel with the first statement
// of the handler: it would run whatever a look-up said, and that saves a round trip. The
// claim fails if somebody else has it, and the server then skips the statement.
type firstAttempt struct {
	s        *Store
	ask      store.Ask
	deadline time.Time // of Begin's context; zero: none
	start    *time.Time
}

// beginFirst does no more than get a connection.
func (s *Store) beginFirst(ctx context.Context, ask store.Ask) (store.Txn[pgx.Tx], error) {
	conn, err := s.acquire(ctx, ask.Timeouts.Acquire)
	if err != nil {
		return nil, err
	}
	t := &txn{s: s, conn: conn}
	t.raw = session{conn: conn.Conn(), answerTime: statementTime(ask.Timeouts), first: &firstAttempt{s: s, ask: ask, start: &t.claim.start}}
	t.raw.first.deadline, _ = ctx.Deadline()
	t.user = tx{Tx: &t.raw, root: &t.shared}
	return t, nil
}

// open makes sure that the transaction is open. If nothing was sent before, and first can
// travel along, its results are returned: those of all other statements are to be asked for.
// Meanwhile nothing else is sent, by another goroutine or after a panic: it would run by itself.
func (s *session) open(ctx context.Context, first statement) (sent pgx.BatchResults, err error) {
	o := s.first
	switch {
	case o == nil:
		return nil, s.refused
	case ctx.Err() != nil: // pgx would not have sent it either
		return nil, &store.Error{Kind: store.Other, Err: fmt.Errorf("pgxstore: a statement was not sent: %w", ctx.Err())}
	}
	s.first, s.refused = nil, errNotOpen
	defer func() {
		if s.refused == errNotOpen { //nolint:errorlint // this very one: a panic
			_ = s.conn.Close(ctx) // for who uses it apart from s
		}
	}()
	if first.travels() {
		sent, err = o.send(ctx, s.conn, first)
		if !errors.As(err, new(unsentError)) || s.conn.IsClosed() || o.s.Classify(err) == store.Busy {
			s.refuse(ctx, err)
			return sent, s.refused
		}
		// It cannot be prepared or encoded: pgx says so better.
	}
	front, err := o.send(ctx, s.conn)
	if err == nil {
		err = front.Close()
	}
	s.refuse(ctx, err)
	return nil, s.refused
}

var errNotOpen = error(&store.Error{Kind: store.Aborted, Err: errors.New("pgxstore: the transaction is not open yet. Try: one statement at a time")})

// travels reports whether st can be part of a pipeline: one without arguments may be
// several, and one word is the name of what the user has prepared.
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

// unsentError is why nothing was sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// begin is BEGIN and the bounds.
func (o *firstAttempt) begin() pipeline {
	b := make(pipeline, 0, 4)
	b.queue(beginText[o.ask.Isolation])
	queueBounds(&b, budgetUntil(o.deadline, o.ask.Timeouts.Statement), o.ask.Timeouts)
	return b
}

// prepare prepares what is to travel along, if that is new to the connection. It waits for
// who alters a table, under the bounds of the transaction to come.
func (o *firstAttempt) prepare(ctx context.Context, conn *pgx.Conn, sql string) error {
	p := preparedOn(conn)
	if p.known[sql] != nil || o.ask.Timeouts.Lock == 0 && o.ask.Timeouts.Statement == 0 {
		return nil
	}
	p.trips++
	err := o.s.send(ctx, conn, o.begin()).Close()
	if err == nil {
		_, err = p.get(ctx, conn.PgConn(), sql)
	}
	if conn.PgConn().TxStatus() != 'I' {
		if _, e := conn.Exec(ctx, "rollback"); e != nil {
			_ = conn.Close(ctx)
			err = e
		}
	}
	return err
}

// answerTime is how long the answer to the claim may take: with a statement of the handler,
// that one's time as well. 0 is no bound.
func (o *firstAttempt) answerTime(withStatement bool) time.Duration {
	limit := answerTime(o.ask.Timeouts)
	if !withStatement || limit == 0 {
		return limit
	}
	if o.ask.Timeouts.Statement == 0 { // it may take as long as it takes
		return 0
	}
	return limit + o.ask.Timeouts.Statement
}

// queue prepares the claim with what travels along; nil if pgx is to do that. Preparing
// asks the server, which may be silent.
func (o *firstAttempt) queue(ctx context.Context, conn *pgx.Conn, b pipeline, along []statement) (_ *pgconn.Batch, err error) {
	answer := awaitAnswer(conn, o.answerTime(false))
	defer func() { err = answer.stop(err) }()
	for _, st := range along {
		if err := o.prepare(ctx, conn, st.sql); err != nil {
			return nil, err
		}
	}
	return o.s.queuePrepared(ctx, conn, append(b, along...))
}

// send sends BEGIN and the claim with what travels along, and reads the answers to BEGIN and the claim.
func (o *firstAttempt) send(ctx context.Context, conn *pgx.Conn, along ...statement) (_ pgx.BatchResults, err error) {
	b := o.begin()
	front := len(b)
	b.queue(pgsql.LockOrFail, pgsql.LockID(o.ask.ID))
	queued, err := o.queue(ctx, conn, b, along)
	if err != nil {
		return nil, unsentError{err}
	}
	answer := awaitAnswer(conn, o.answerTime(len(along) > 0))
	defer func() { err = answer.stop(err) }()
	var br pgx.BatchResults
	if b = append(b, along...); queued == nil {
		br = conn.SendBatch(ctx, b.batch())
	} else {
		br = pipelineResults{conn, conn.PgConn().ExecBatch(ctx, queued)}
	}
	for i := 0; i < front && err == nil; i++ {
		_, err = br.Exec()
	}
	if err == nil {
		var granted bool
		err = br.QueryRow().Scan(o.start, &granted)
	}
	if err != nil {
		_ = br.Close() // says the same
		return nil, err
	}
	return br, nil
}

// refuse keeps why the transaction is not to be had. Nothing may then reach the server
// that it would run by itself.
func (s *session) refuse(ctx context.Context, err error) {
	if err == nil {
		s.refused = nil
		return
	}
	kind := store.Busy
	switch pe := serverError(err); {
	case pe != nil && pe.Code == pgsql.DivisionByZero:
		kind = store.Taken
	case pe != nil && outdated(pe):
		kind = store.Retry
		_ = s.conn.Close(ctx)
	case refusedByStandby(ctx, s.conn, err):
		kind = store.Retry
	case pe != nil && !fatal(pe):
		if pgsql.Classify(pe.Code) == store.Retry {
			kind = store.Retry
		}
	case silent(err):
	case ctx.Err() == nil:
		kind = store.Retry // the connection broke while it was idle, and Begin knows what to do then
	default:
		kind = store.Other // the time of the statement is over; the engine knows whether that of the caller is
	}
	if s.conn.PgConn().TxStatus() == 'I' {
		_ = s.conn.Close(ctx)
	}
	s.refused = &store.Error{Kind: kind, Err: explained(err)}
}

// failed is for a statement that has travelled along and failed with err. What was prepared
// for it pgx does not know, and would not prepare anew.
func (s *session) failed(ctx context.Context, sql string, err error) error {
	switch pe := serverError(err); {
	case pe == nil:
	case outdated(pe): // nothing of the handler has run
		s.refuse(ctx, err)
		return s.refused
	case misfit(pe):
		preparedOn(s.conn).forget(ctx, s.conn.PgConn(), sql)
	}
	return err
}

// firstRows are the rows of a statement that has travelled with the claim.
type firstRows struct {
	pgx.Rows
	conn    *pgx.Conn
	results pgx.BatchResults
	closed  bool
	err     error
}

func (r *firstRows) Conn() *pgx.Conn { return r.conn }

func (r *firstRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Scan ends the rows if it fails, as with pgx; and so does Values.
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

// Close may be called again, also when the connection is somebody else's.
func (r *firstRows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	if err := r.results.Close(); r.Rows.Err() == nil {
		r.err = err
	}
}

func (r *firstRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}
