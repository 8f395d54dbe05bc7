package pgxstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// ordinary reports whether c finishes an operation that one transaction has executed. The record of such a change
// is one short insert.
func ordinary(c store.Change) bool {
	n := c.Next
	return n.State == store.StateDone && n.Fence == 1 && n.RecoveryPoint == "" && !n.CallStarted && n.Data == nil &&
		c.Expect.Fence == 0 && !c.KeepRequest && len(c.Held) == 0 && c.StaleAfter.IsZero()
}

// queueChange queues the record of c. The parameter found is the look-up of the same transaction.
func queueChange(b *pipeline, c store.Change, found *lookup) {
	switch {
	case c.ID.IsZero() && len(c.Held) == 0:
	case c.ID == found.id && ordinary(c):
		// An expired record counts as absent, but its row would make the insert fail.
		if found.row.expired {
			b.queue(pgsql.Expired, c.ID.Scope, c.ID.Key)
		}
		queueDone(b, c, found.start)
	case keeps(c) && len(c.Held) == 0:
		// This statement also checks that the transaction is still the same.
		b.refusing(store.KindTaken, pgsql.SwapKeepSame, append(keepArgs(c), found.start)...)
	case begins(c):
		// The row of an expired record would make the insert fail.
		b.queue(pgsql.Expired, c.ID.Scope, c.ID.Key)
		b.refusing(store.KindTaken, pgsql.SwapInsertSame, append(insertArgs(c), found.start)...)
	default:
		// The handler may have sent "commit; begin" by itself. Then the claim is gone, and the change must be refused.
		b.refusing(store.KindEnded, pgsql.SameTransaction, found.start)
		if c.ID == found.id && c.Next.State == store.StateAbsent && c.Expect.Fence == 0 {
			c.ID, c.StaleAfter = store.ID{}, time.Time{} // no record exists, and none is written
		}
		queueSwap(b, c)
	}
}

// queueDone queues the record of an ordinary Change in a transaction that holds the claim.
func queueDone(b *pipeline, c store.Change, start time.Time) {
	queueInsert(b, store.KindEnded, pgsql.InsertDone, pgsql.InsertDoneRequest, c, start)
}

// queueUnclaimed queues the record of an ordinary Change in a transaction without a claim: the insert claims the
// operation.
func queueUnclaimed(b *pipeline, c store.Change) {
	queueInsert(b, store.KindTaken, pgsql.InsertClaim, pgsql.InsertClaimRequest, c, pgsql.LockID(c.ID))
}

// queueInsert queues the insert of a finished record. The text full has columns for the request, the trace and the
// name, which most records do not need.
func queueInsert(b *pipeline, refusal store.Kind, short, full string, c store.Change, last any) {
	n := c.Next
	args := make([]any, 0, 13)
	args = append(args, c.ID.Scope, c.ID.Key, n.Nonce, n.Fingerprint, int64(n.Result.Status), int64(n.Result.Kind),
		head.Encode(&n.Result), n.Result.Body, millis(c.Retain), last)
	if n.Request == nil && n.Trace == "" && n.Name == "" {
		b.refusing(refusal, short, args...)
	} else {
		b.refusing(refusal, full, append(args, n.Request, n.Trace, n.Name)...)
	}
}

// queueSwap queues the record of a Change and the checks of its Held leases. It does not queue the Writes.
func queueSwap(b *pipeline, c store.Change) {
	before, after := pgsql.HeldAround(c)
	queueHeld(b, before)
	if !c.ID.IsZero() {
		queueRecord(b, c)
	}
	queueHeld(b, after)
	// This check comes after the insert, so that an existing record is reported as taken, and not as too late.
	if !c.StaleAfter.IsZero() && c.Expect.Fence == 0 && !c.ID.IsZero() {
		b.refusing(store.KindStale, pgsql.InTime, c.StaleAfter)
	}
}

// checkKeep refuses a change that keeps fields of a record, but expects that no record exists.
func checkKeep(c store.Change) error {
	if c.KeepRequest && c.Expect.Fence == 0 {
		return &store.Error{Kind: store.KindMisused, Err: errKeep}
	}
	return nil
}

var errKeep = errors.New("pgxstore: store.Change.KeepRequest is set, but Expect.Fence is 0, so there is no stored record whose request could be kept. Try: set Expect.Fence to the fence of the stored record")

// queueHeld queues the check that the caller still holds all leases.
func queueHeld(b *pipeline, holds []store.Hold) {
	if len(holds) > 0 {
		b.refusing(store.KindTaken, pgsql.Held, pgsql.Holds(holds), int64(len(holds)))
	}
}

// keeps reports whether c is a later step of an operation, which keeps the request of the operation.
func keeps(c store.Change) bool {
	return c.KeepRequest && c.Expect.Fence != 0 && c.Next.State != store.StateAbsent
}

// begins reports whether c writes the first record of an operation, and checks nothing else.
func begins(c store.Change) bool {
	return !c.ID.IsZero() && c.Expect.Fence == 0 && !c.KeepRequest && c.Next.State != store.StateAbsent && len(c.Held) == 0 && c.StaleAfter.IsZero()
}

// insertArgs returns the arguments of SwapInsert and SwapInsertSame, without the start of the transaction.
func insertArgs(c store.Change) []any {
	n := c.Next
	return []any{
		c.ID.Scope, c.ID.Key, pgsql.LockID(c.ID), int64(n.State), n.Fence, n.Nonce, n.Fingerprint, int64(n.Result.Status), int64(n.Result.Kind), head.Encode(&n.Result), n.Result.Body,
		n.Request, n.Trace, n.Name, n.RecoveryPoint, n.CallStarted, n.Data, millis(c.Lease), millis(c.Retain),
	}
}

// keepArgs returns the arguments of SwapKeep and SwapKeepSame, without the start of the transaction.
func keepArgs(c store.Change) []any {
	n, expect := c.Next, c.Expect
	return []any{
		c.ID.Scope, c.ID.Key, int64(n.State), n.Fence, n.Nonce, int64(n.Result.Status), int64(n.Result.Kind), head.Encode(&n.Result), n.Result.Body,
		n.RecoveryPoint, n.CallStarted, n.Data, millis(c.Lease), millis(c.Retain), expect.Fence, expect.LeaseExpired, expect.Nonce,
	}
}

// queueRecord queues the statement that writes or deletes the record of c.
func queueRecord(b *pipeline, c store.Change) {
	n, expect := c.Next, c.Expect
	key := []any{c.ID.Scope, c.ID.Key}
	who := []any{int64(n.State), n.Fence, n.Nonce}
	asked := []any{n.Fingerprint}
	result := []any{int64(n.Result.Status), int64(n.Result.Kind), head.Encode(&n.Result), n.Result.Body}
	origin := []any{n.Request, n.Trace, n.Name}
	lease := []any{n.RecoveryPoint, n.CallStarted, n.Data, millis(c.Lease), millis(c.Retain)}
	expected := []any{expect.Fence, expect.LeaseExpired, expect.Nonce}
	switch {
	case n.State == store.StateAbsent:
		b.refusing(store.KindTaken, pgsql.SwapDelete, slices.Concat(key, expected)...)
	case expect.Fence == 0:
		b.queue(pgsql.Expired, key...)
		b.refusing(store.KindTaken, pgsql.SwapInsert, insertArgs(c)...)
	case keeps(c):
		b.refusing(store.KindTaken, pgsql.SwapKeep, keepArgs(c)...)
	default:
		b.refusing(store.KindTaken, pgsql.SwapUpdate, slices.Concat(key, who, asked, result, origin, lease, expected)...)
	}
}

// queueWrites queues the writes that are sent with a commit: the appended statements, and the Writes of the
// Change. They are sorted by the order of their locks.
func queueWrites(b *pipeline, tail, writes []store.Statement) {
	if len(tail) > 0 {
		writes = slices.Concat(tail, writes)
	}
	for _, w := range sqlplane.InLockOrder(writes) {
		*b = append(*b, statement{sql: counted(w), args: w.Args, appended: len(tail) > 0})
	}
}

// counted returns the text of w. If w.Rows is set, the server fails this text unless it affects w.Rows rows.
func counted(w store.Statement) string {
	if w.Rows > 0 {
		return pgsql.Expecting(w.SQL, strconv.Itoa(w.Rows))
	}
	return w.SQL
}

// results reads the answers to b, whose last statement commits. It returns the number of the failed statement,
// and the last command tag.
func results(ctx context.Context, br pgx.BatchResults, b pipeline) (failed int, tag pgconn.CommandTag, err error) {
	for failed = 0; failed < len(b) && err == nil; failed++ {
		if each := b[failed].each; each != nil {
			err = readRows(br, each)
		} else {
			tag, err = br.Exec()
		}
	}
	failed--
	if e := br.Close(); err == nil && e != nil {
		failed, err = len(b), e // a deferred constraint has failed at the end of the implicit transaction
	}
	if err == nil && ctx.Err() != nil {
		// A cancel request (pgx may be configured to send one) ends the wait of the server for the standby. Then the
		// server answers as if the standby had confirmed.
		failed, err = len(b), ctx.Err()
	}
	return failed, tag, err
}

// readRows reads the rows of the next result.
func readRows(br pgx.BatchResults, each func(pgx.Rows) error) error {
	own, ok := br.(pipelineResults)
	if ok {
		own.trace.reading()
	}
	rows, err := br.Query()
	if err == nil {
		defer rows.Close()
		for err == nil && rows.Next() {
			err = each(rows)
		}
		rows.Close()
		err = errors.Join(err, rows.Err())
	}
	if ok {
		var tag pgconn.CommandTag
		if rows != nil {
			tag = rows.CommandTag()
		}
		own.trace.answered(tag, err)
	}
	return err
}

// errNotCommitted returns the error of a COMMIT that the server has answered with ROLLBACK.
func errNotCommitted(tag pgconn.CommandTag) error {
	return &pgconn.PgError{Severity: "ERROR", Code: "25P02", Message: "the server has answered COMMIT with " + tag.String()}
}

// failure classifies the error of b at statement number failed. If the tables have changed, failure forgets the
// prepared form of that statement, so that it is prepared again.
func (s *Store) failure(ctx context.Context, conn *pgx.Conn, b pipeline, failed int, err error) error {
	pe := serverError(err)
	// A prepared statement keeps the types of its parameters from before an ALTER TABLE.
	if pe != nil && failed < len(b) && misfit(pe) {
		preparedOn(conn).forget(ctx, conn.PgConn(), b[failed].sql)
	}
	switch {
	case errors.As(err, new(pgx.ErrPreprocessingBatch)),
		pe == nil && failed == 0 && ctx.Err() == nil && !conn.IsClosed(): // if an answer were lost, the connection would be closed; so b was not sent
		return unsent(conn, err, b.at(failed).appended)
	// Without an answer, or after the end of the connection, classify decides.
	case pe == nil || fatal(pe):
	case s.prepares && outdated(pe):
		// A new connection has no prepared statements. So the next run prepares them for the changed tables.
		_ = conn.Close(ctx)
		return &store.Error{Kind: store.KindRetry, Err: explained(err)}
	}
	return classify(err, b.at(failed))
}
