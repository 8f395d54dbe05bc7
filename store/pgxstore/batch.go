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

// batchTxn is a transaction that has sent nothing yet (store.BeginOptions.Batch). At the default isolation level
// it sends neither BEGIN nor COMMIT, because a pipeline is an implicit transaction. After a failed statement the server
// rolls the pipeline back by itself.
type batchTxn struct {
	s         *Store
	conn      *pgxpool.Conn
	opts      store.BeginOptions
	statement time.Duration // the statement timeout at the time of Begin
}

var _ store.CommitClaimer = (*batchTxn)(nil)

// beginBatch gets a connection, and sends nothing.
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

// Commit sends all statements in one round trip. The record is the first write, so that a duplicate fails before
// any other write. The position of an error shows which statement has failed.
func (t *batchTxn) Commit(ctx context.Context, c store.Change) error {
	defer t.conn.Release()
	// The writes are checked before anything is sent, so a refused write needs no rollback.
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
		// A missing record does not prove that the operation is free: another transaction may hold the claim, and commit
		// later.
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
	// pgx would close the connection at once when ctx ends. Then it would not be known whether the batch was applied.
	stop := context.AfterFunc(ctx, func() { giveUp(conn.PgConn()) })
	defer stop()                                                          // also if a tracer panics
	br, err := t.s.sendPrepared(ctx, context.WithoutCancel(ctx), conn, b) // without cancel, because giveUp ends the wait
	if err != nil {
		if !stop() {
			_ = conn.Close(ctx) // as below
		}
		return unsent(conn, err, false)
	}
	failed, tag, err := results(context.WithoutCancel(ctx), br, b)
	if !stop() {
		_ = conn.Close(ctx) // the cancel request may arrive late, and must not cancel a statement of the next user of the connection
		if err == nil {
			failed, err = len(b), ctx.Err() // the cancel request may have ended the wait for the standby, as in results
		}
	}
	switch {
	case err == nil && (t.opts.Isolation == store.DefaultIsolation || tag.String() == commit):
		return nil
	case err == nil:
		err = errNotCommitted(tag)
	case conn.PgConn().TxStatus() == 'E': // the transaction has failed after an explicit BEGIN
		_, _ = conn.Exec(ctx, "rollback") // if the rollback fails, the pool finds the open transaction and closes the connection
	}
	if refusedByStandby(ctx, conn, err) {
		return &store.Error{Kind: store.KindRetry, Err: pgsql.ErrRecovery} // the next Begin may find the primary
	}
	return t.s.failure(ctx, conn, b, failed, err)
}

// giveUp asks the server to cancel a batch whose time is over, for example a batch that waits for locks. An error
// from the server is better than no answer, because it proves that nothing was applied. The server has one second for
// the answer.
func giveUp(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// The deadline comes first, because the request needs a separate connection and may take the whole second.
	_ = conn.Conn().SetDeadline(time.Now().Add(time.Second))
	_ = conn.CancelRequest(ctx) // if the request does not reach the server, the deadline ends the wait
}

// queueFront queues the statements before the claim. It sets no idle timeout, because a batch is never idle in
// its transaction.
func (t *batchTxn) queueFront(b *pipeline) {
	if t.opts.Isolation != store.DefaultIsolation {
		b.queue(beginText[t.opts.Isolation])
	}
	t.s.queueName(b, t.opts.ID)
	queueBounds(b, t.statement, store.Timeouts{Lock: t.opts.Timeouts.Lock})
}

// unsent classifies the error of a pipeline that was not sent, for example because the server cannot prepare a
// write, because an argument cannot be encoded, or because the connection was gone.
func unsent(conn *pgx.Conn, err error, appended bool) error {
	kind := store.KindOther
	pe := serverError(err)
	if pe != nil {
		kind = pgsql.Classify(pe.Code)
	}
	switch {
	case strings.HasPrefix(err.Error(), "error preprocessing batch (build)"): // pgx has closed the connection because of the argument, so the closed connection is no reason to try again
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		kind = store.KindUnavailable
	case pe != nil && ownTable(pe, appended || errors.As(err, new(ownError))):
		kind, err = store.KindUnavailable, notMigrated(err)
	case kind == store.KindLost, conn.IsClosed():
		kind = store.KindRetry // the connection broke while it was idle; Begin connects again after an error of this kind
	}
	return &store.Error{Kind: kind, Err: explained(err)}
}

// checkBatchWrites refuses statements that could end the transaction inside the pipeline, where no answer is
// read before the end. COMMIT ends it. The code of CALL and DO may commit if no BEGIN was sent. The server itself
// refuses several statements in one text, unless pgx uses the simple protocol.
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

// firstWord returns the first word of a statement. It skips blanks, comments and parentheses before the word. It
// returns "" if the statement does not begin with a word, or begins with nested comments.
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
