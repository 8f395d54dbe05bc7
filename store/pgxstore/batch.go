package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// batchTxn is a transaction of which nothing has been sent yet (store.BeginOptions.Batch). At the default
// isolation it has neither BEGIN nor COMMIT: the pipeline is an implicit transaction, and after a statement
// that fails nothing needs to be rolled back.
type batchTxn struct {
	s         *Store
	conn      *pgxpool.Conn
	opts      store.BeginOptions
	statement time.Duration // budget, counted from here
}

var _ store.CommitClaimer = (*batchTxn)(nil)

// beginBatch only gets a connection.
func (s *Store) beginBatch(ctx context.Context, opts store.BeginOptions) (store.Transaction[pgx.Tx], error) {
	conn, err := s.acquire(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &batchTxn{s, conn, opts, budget(ctx, opts.Timeouts.Statement)}, nil
}

// ClaimsByCommit implements [store.CommitClaimer].
func (t *batchTxn) ClaimsByCommit() bool { return true }

// Statements implements [ability.Counter].
func (t *batchTxn) Statements() int { return 0 }

func (t *batchTxn) Tx() pgx.Tx { return nil }

func (t *batchTxn) Rollback(context.Context) error {
	t.conn.Release()
	return nil
}

// Commit sends everything. The record is first, so that a duplicate fails before any write. The position of an
// error says which statement has caused it.
func (t *batchTxn) Commit(ctx context.Context, c store.Change) error {
	defer t.conn.Release()
	if err := checkBatchWrites(c.Writes, t.s.simple); err != nil {
		return err
	}
	if err := checkKeep(c); err != nil {
		return err
	}
	b := make(pipeline, 0, len(c.Writes)+6)
	t.queueFront(&b)
	switch {
	case c.ID.IsZero() && len(c.Held) == 0:
	case ordinary(c):
		queueUnclaimed(&b, c)
	default:
		// A missing record is not enough: another transaction may hold the claim and commit later.
		if c.Expect.Fence == 0 && !c.ID.IsZero() {
			b.refusing(store.KindTaken, pgsql.TryClaim, pgsql.LockID(c.ID))
		}
		queueSwap(&b, c)
	}
	if !t.opts.StaleAfter.IsZero() {
		b.refusing(store.KindStale, pgsql.InTime, t.opts.StaleAfter)
	}
	queueWrites(&b, nil, c.Writes)
	if t.opts.Isolation != store.DefaultIsolation {
		b.queue(commit)
	}
	if len(b) == 0 {
		return nil
	}
	conn := t.conn.Conn()
	stop := context.AfterFunc(ctx, func() { giveUp(conn.PgConn()) })
	defer stop()                                                          // if a tracer panics
	br, err := t.s.sendPrepared(ctx, context.WithoutCancel(ctx), conn, b) // giveUp ends it
	if err != nil {
		if !stop() {
			_ = conn.Close(ctx) // as below
		}
		return unsent(conn, err, false)
	}
	failed, tag, err := results(context.WithoutCancel(ctx), br, b)
	if !stop() {
		_ = conn.Close(ctx) // the request to cancel may still arrive, and must not cancel a statement of the connection's next user
		if err == nil {
			failed, err = len(b), ctx.Err() // as in results: it may have ended the wait for the standby
		}
	}
	switch {
	case err == nil && (t.opts.Isolation == store.DefaultIsolation || tag.String() == commit):
		return nil
	case err == nil:
		err = errNotCommitted(tag)
	case conn.PgConn().TxStatus() == 'E': // there was a BEGIN
		_, _ = conn.Exec(ctx, "rollback") // if that fails, so does the pool's check
	}
	if refusedByStandby(ctx, conn, err) {
		return &store.Error{Kind: store.KindRetry, Err: pgsql.ErrRecovery} // Begin may find the primary
	}
	return t.s.failure(ctx, conn, b, failed, err)
}

// giveUp asks the server to end a batch whose time is over. The server may be waiting for locks, and an error
// from it is better than no answer. The server has a second for that.
func giveUp(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Set before the request, which needs a connection of its own and may take the whole second.
	_ = conn.Conn().SetDeadline(time.Now().Add(time.Second))
	_ = conn.CancelRequest(ctx) // if the request does not reach the server, the deadline ends the wait
}

// queueFront queues the statements before the claim. It needs no idle timeout: a batch is never
// idle in its transaction.
func (t *batchTxn) queueFront(b *pipeline) {
	if t.opts.Isolation != store.DefaultIsolation {
		b.queue(beginText[t.opts.Isolation])
	}
	t.s.queueName(b, t.opts.ID)
	queueBounds(b, t.statement, store.Timeouts{Lock: t.opts.Timeouts.Lock})
}

// unsent is for a pipeline that was not sent: a write that the server cannot prepare, an
// argument that cannot be encoded, a connection that was gone.
func unsent(conn *pgx.Conn, err error, appended bool) error {
	kind := store.KindOther
	pe := serverError(err)
	if pe != nil {
		kind = pgsql.Classify(pe.Code)
	}
	switch {
	case strings.HasPrefix(err.Error(), "error preprocessing batch (build)"): // which has cost the connection
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		kind = store.KindUnavailable
	case pe != nil && ownTable(pe, appended || errors.As(err, new(ownError))):
		kind, err = store.KindUnavailable, notMigrated(err)
	case kind == store.KindLost, conn.IsClosed():
		kind = store.KindRetry // the connection broke while it was idle; Begin connects again for this kind
	}
	return &store.Error{Kind: kind, Err: explained(err)}
}

// checkBatchWrites refuses statements that could end the transaction in the middle of its pipeline, where
// no answer is read before the end: COMMIT, and CALL and DO, whose code may commit if there
// was no BEGIN. The server itself refuses a text of several statements, unless pgx
// uses the simple protocol.
func checkBatchWrites(writes []store.Statement, simple bool) error {
	for i, w := range writes {
		word := firstWord(w.SQL)
		switch strings.ToLower(word) {
		case "insert", "update", "delete", "merge", "with", "select", "values":
			if !simple || strings.IndexByte(strings.TrimRight(w.SQL, "; \t\r\n"), ';') < 0 {
				continue
			}
			word = "several statements"
		}
		return &store.Error{Kind: store.KindMisused, Err: fmt.Errorf("pgxstore: write %d of a batch is %q, which a batch does not allow. Try: one insert, update, delete, merge or select in each write, or once.Do instead of a batch", i+1, word)}
	}
	return nil
}

// firstWord returns the first word of a statement, after blanks, comments and parentheses; "" if
// it does not begin with a word. Nested comments are not recognised.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f(")
		switch {
		case strings.HasPrefix(sql, "--"):
			end := strings.IndexAny(sql, "\r\n")
			if end < 0 {
				return ""
			}
			sql = sql[end:]
		case strings.HasPrefix(sql, "/*"):
			end := strings.Index(sql[2:], "*/")
			if end < 0 || strings.Contains(sql[2:2+end], "/*") {
				return ""
			}
			sql = sql[2+end+2:]
		default:
			end := strings.IndexFunc(sql, func(r rune) bool { return (r|0x20) < 'a' || (r|0x20) > 'z' })
			if end < 0 {
				end = len(sql)
			}
			return sql[:end]
		}
	}
}
