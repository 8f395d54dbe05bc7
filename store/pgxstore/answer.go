package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/store"
)

// answerTime is how long the answer to the statements that begin a transaction may take: the time for a
// connection and the time for a lock together. 0 means no bound.
func answerTime(t store.Timeouts) time.Duration {
	if t.Acquire == 0 {
		return 0
	}
	return t.Acquire + t.Lock
}

// statementTime is how long the answer to a statement of the handler may take: Statement, after which the
// server reports an error, plus the time for a connection.
func statementTime(t store.Timeouts) time.Duration {
	if t.Statement == 0 {
		return 0
	}
	return t.Statement + t.Acquire
}

// answerTimer ends a round trip whose answer does not arrive. A server may be silent while its connection stays
// open; then only a clock on this side can end the wait. The timer sets a deadline on the connection, because a
// context would cost each transaction several times more.
type answerTimer struct {
	conn  *pgx.Conn
	limit time.Duration
	timer *time.Timer // nil: no bound
}

// awaitAnswer bounds all writes and reads on conn from now on until [answerTimer.stop]; 0 means
// no bound.
func awaitAnswer(conn *pgx.Conn, limit time.Duration) answerTimer {
	t := answerTimer{conn: conn, limit: limit}
	if limit > 0 {
		pc := conn.PgConn()
		t.timer = time.AfterFunc(limit, func() { _ = pc.Conn().SetDeadline(time.Now()) })
	}
	return t
}

// stop returns err, or an error that the server was silent if the time was over. The
// connection is then closed.
func (t answerTimer) stop(err error) error {
	if t.timer == nil || t.timer.Stop() {
		// The timer has not fired, so no deadline is set on the connection.
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = t.conn.Close(ctx) // the deadline may be set after a good answer was read
	return &silentError{t.limit, err}
}

// busy is stop for a statement of the handler: its error says that the operation may be tried again.
func (t answerTimer) busy(err error) error {
	if err = t.stop(err); silent(err) {
		err = &store.Error{Kind: store.KindBusy, Err: err}
	}
	return err
}

// awaitAnswer bounds a statement of the handler. If the transaction is over, the connection does not belong to
// s any more, and nothing is bounded.
func (s *session) awaitAnswer() answerTimer {
	if s.over {
		return answerTimer{}
	}
	return awaitAnswer(s.conn, s.answerTime)
}

// awaited sends a batch, and bounds each answer to it.
func (s *session) awaited(send func() pgx.BatchResults) pgx.BatchResults {
	if s.answerTime == 0 {
		return send()
	}
	answer := s.awaitAnswer()
	br := send()
	if err := answer.busy(nil); err != nil {
		_ = br.Close()
		return refusedBatch{err}
	}
	return awaitedBatch{br, s}
}

// awaitedBatch bounds each answer to a batch.
type awaitedBatch struct {
	pgx.BatchResults
	s *session
}

func (b awaitedBatch) Exec() (pgconn.CommandTag, error) {
	answer := b.s.awaitAnswer()
	tag, err := b.BatchResults.Exec()
	return tag, answer.busy(err)
}

func (b awaitedBatch) Query() (pgx.Rows, error) {
	answer := b.s.awaitAnswer()
	rows, err := b.BatchResults.Query()
	if silence := answer.busy(nil); silence != nil {
		if rows != nil {
			rows.Close()
		}
		return refusedRows{silence}, silence
	}
	return rows, err
}

func (b awaitedBatch) QueryRow() pgx.Row {
	rows, err := b.Query()
	return queriedRow{rows, err}
}

func (b awaitedBatch) Close() error {
	answer := b.s.awaitAnswer()
	return answer.busy(b.BatchResults.Close())
}

// silentError is the error of a statement that the server has not answered in time. The store does not try
// another connection, because the other connection leads to the same server.
type silentError struct {
	limit time.Duration
	err   error // perhaps nil
}

func (e *silentError) Error() string {
	text := fmt.Sprintf("pgxstore: the PostgreSQL server has not answered within %v, the limit that Timeouts sets", e.limit)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text + ". Try: check that the server is running; if the server is only slow, a longer Timeouts.Acquire, Lock or Statement"
}

func (e *silentError) Unwrap() error { return e.err }

func silent(err error) bool { return errors.As(err, new(*silentError)) }
