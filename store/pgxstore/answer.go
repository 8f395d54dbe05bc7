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

// answerTime returns how long the answer to the statements that begin a transaction may take. It is the sum of
// the times for a connection and for a lock. 0 means no limit.
func answerTime(t store.Timeouts) time.Duration {
	if t.Acquire == 0 {
		return 0
	}
	return t.Acquire + t.Lock
}

// statementTime returns how long the answer to a statement of the handler may take. It is the sum of the
// Statement timeout, after which the server reports an error, and the time for a connection.
func statementTime(t store.Timeouts) time.Duration {
	if t.Statement == 0 {
		return 0
	}
	return t.Statement + t.Acquire
}

// answerTimer ends a round trip whose answer does not arrive. A server may be silent while its connection stays
// open. Then only a clock of this process can end the wait. The timer sets a deadline on the connection, because a
// context would cost each transaction several times more.
type answerTimer struct {
	conn  *pgx.Conn
	limit time.Duration
	timer *time.Timer // nil: no limit
}

// awaitAnswer limits the time of all writes and reads on conn, from now until [answerTimer.stop]. If limit is 0,
// the time is not limited.
func awaitAnswer(conn *pgx.Conn, limit time.Duration) answerTimer {
	t := answerTimer{conn: conn, limit: limit}
	if limit > 0 {
		pc := conn.PgConn()
		t.timer = time.AfterFunc(limit, func() { _ = pc.Conn().SetDeadline(time.Now()) })
	}
	return t
}

// stop ends the time limit, and returns err. If the time was over, stop closes the connection and returns a
// silentError.
func (t answerTimer) stop(err error) error {
	if t.timer == nil || t.timer.Stop() {
		// The timer has not fired, so no deadline is set on the connection.
		return err
	}
	// The context has ended, so that Close does not wait for a silent server.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = t.conn.Close(ctx) // also after a good answer, because the deadline may be set after that answer was read
	return &silentError{t.limit, err}
}

// busy does the same as stop for a statement of the handler. Its error says that the operation can be tried again.
func (t answerTimer) busy(err error) error {
	if err = t.stop(err); silent(err) {
		err = &store.Error{Kind: store.KindBusy, Err: err}
	}
	return err
}

// awaitAnswer limits the time of a statement of the handler. After the transaction the connection may belong to
// another user of the pool, so then awaitAnswer sets no limit.
func (s *session) awaitAnswer() answerTimer {
	if s.over {
		return answerTimer{}
	}
	return awaitAnswer(s.conn, s.answerTime)
}

// awaited sends a batch, and limits the time of each answer.
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

// awaitedBatch limits the time of each answer to a batch.
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
	// An answer that arrived too late is not used, because its connection is closed.
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

// silentError says that the server has not answered a statement in time. After this error the store does not
// try another connection, because that connection leads to the same server.
type silentError struct {
	limit time.Duration
	err   error // nil if the statement had no error of its own
}

func (e *silentError) Error() string {
	text := fmt.Sprintf("pgxstore: the PostgreSQL server has not answered within %v, the limit that Timeouts sets", e.limit)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text + ". Try: check that the server is running; if the server is only slow, a longer Timeouts.Acquire, Lock or Statement"
}

func (e *silentError) Unwrap() error { return e.err }

// silent reports whether err says that the server has not answered in time.
func silent(err error) bool { return errors.As(err, new(*silentError)) }
