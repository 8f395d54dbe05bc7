package pgxstore

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

var beginText = map[store.Isolation]string{
	store.DefaultIsolation: "begin",
	store.ReadCommitted:    "begin isolation level read committed",
	store.RepeatableRead:   "begin isolation level repeatable read",
	store.Serializable:     "begin isolation level serializable",
}

// session is the open transaction of a connection. It replaces the transaction of pgx, which only exists if pgx sends
// BEGIN. Type [tx] makes the savepoints.
type session struct {
	conn    *pgx.Conn
	first   *firstAttempt // BEGIN and the claim, if they are not sent yet
	refused error         // the reason why the transaction is not open
	large   pgx.Tx        // the transaction of pgx for large objects
	over    bool          // the transaction has ended, and conn may belong to another goroutine

	answerTime time.Duration // the time limit for a statement of the handler; 0: no limit
}

var _ pgx.Tx = (*session)(nil)

// Conn opens the transaction, because the caller will send statements without the session. Conn has no context, so the
// opening has its own time limit.
func (s *session) Conn() *pgx.Conn {
	if s.first != nil && !s.over {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = s.open(ctx, statement{}) // after a failure, refuse makes sure that no statement of the handler runs
	}
	// The caller may drop prepared statements on the connection.
	if !s.over {
		preparedOn(s.conn).forgetOwn()
	}
	return s.conn
}

func (s *session) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if s.over {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	sent, err := s.open(ctx, statement{sql: sql, args: args})
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	answer := s.awaitAnswer()
	if sent == nil {
		tag, err := s.conn.Exec(ctx, sql, args...)
		return tag, answer.busy(err)
	}
	tag, err := sent.results.Exec()
	if e := sent.results.Close(); err == nil {
		err = e
	}
	err = s.failed(ctx, sql, answer.busy(err))
	sent.trace.end(tag, err)
	return tag, err
}

func (s *session) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if s.over {
		return refusedRows{pgx.ErrTxClosed}, pgx.ErrTxClosed
	}
	sent, err := s.open(ctx, statement{sql: sql, args: args, rows: true})
	if err != nil {
		return refusedRows{err}, err
	}
	if sent == nil {
		answer := s.awaitAnswer() // only until the first row: the handler reads the other rows whenever it wants
		rows, err := s.conn.Query(ctx, sql, args...)
		if silence := answer.busy(nil); silence != nil {
			rows.Close()
			return refusedRows{silence}, silence
		}
		return rows, err
	}
	answer := s.awaitAnswer()
	rows, err := sent.results.Query()
	if err = answer.busy(err); err != nil {
		_ = sent.results.Close()
		err = s.failed(ctx, sql, err)
		sent.trace.end(pgconn.CommandTag{}, err)
		return refusedRows{err}, err
	}
	return &firstRows{Rows: rows, conn: s.conn, sent: sent}, nil
}

func (s *session) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return queriedRow{rows, err}
}

func (s *session) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if s.over {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	if _, err := s.open(ctx, statement{}); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return s.awaited(func() pgx.BatchResults { return s.conn.SendBatch(ctx, b) })
}

func (s *session) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if s.over {
		return 0, pgx.ErrTxClosed
	}
	if _, err := s.open(ctx, statement{}); err != nil {
		return 0, err
	}
	answer := s.awaitAnswer()
	n, err := s.conn.CopyFrom(ctx, table, columns, src)
	return n, answer.busy(err)
}

func (s *session) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if s.over {
		return nil, pgx.ErrTxClosed
	}
	if _, err := s.open(ctx, statement{}); err != nil {
		return nil, err
	}
	answer := s.awaitAnswer()
	sd, err := s.conn.Prepare(ctx, name, sql)
	return sd, answer.busy(err)
}

// LargeObjects returns the large objects of pgx. They need a transaction of pgx, which costs a round trip.
func (s *session) LargeObjects() pgx.LargeObjects {
	if s.large == nil {
		s.Conn() // opens the transaction
		var b pgx.Batch
		b.BeginTx(pgx.TxOptions{BeginQuery: "select"})
		br := s.SendBatch(context.Background(), &b)
		s.large = br.Tx()
		_ = br.Close() // after a failure, every use of the large objects returns the error
	}
	return s.large.LargeObjects()
}

func (s *session) Begin(context.Context) (pgx.Tx, error) { return nil, errManaged }

func (s *session) Commit(ctx context.Context) error { return s.end(ctx, commit) }

func (s *session) Rollback(ctx context.Context) error { return s.end(ctx, "rollback") }

func (s *session) end(ctx context.Context, sql string) error {
	if s.over {
		return pgx.ErrTxClosed
	}
	_, err := s.conn.Exec(ctx, sql)
	if err != nil {
		_ = s.conn.Close(ctx) // its state is not known
	}
	s.closed()
	return err
}

// closed makes all objects useless that the handler has got from the session. Its context has ended, so pgx sends
// nothing.
func (s *session) closed() {
	if s.over {
		return
	}
	s.over = true
	if s.large != nil {
		_ = s.large.Commit(dead)
	}
}

// dead is a context that has ended.
var dead = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// nameOf returns the prefix of the application_name of all transactions.
func nameOf(conn *pgx.ConnConfig) string {
	const longest = 63 - len(" 2c26b46b68ffc68f") // PostgreSQL truncates longer names
	name := cmp.Or(conn.RuntimeParams["application_name"], "once")
	// The cut may have split a character.
	return strings.ToValidUTF8(name[:min(len(name), longest)], "")
}

func (s *Store) queueName(b *pipeline, id store.ID) {
	if s.name != "" && !id.IsZero() {
		b.queue(pgsql.Name, s.name+" "+keyname.Hashes(id.Key)[0])
	}
}
