package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// If the server accepts several statements in a packet, a first attempt and a batch have no look-up. The claim is sent
// together with the first statement. If a record exists, the insert of the new record fails on its primary key. A batch
// is one packet, and its COMMIT claims the operation. If a batch fails on any primary key, the next try looks the record
// up, and runs the statements separately.

// mysqlFail is a statement that fails if a condition is true, because it computes a number beyond the largest one. The
// server then skips the rest of the packet. The statement DO would not fail.
const mysqlFail = "set @once_failed = ~0 + (?)"

const mysqlOutOfRange = 1690

// claimOrFail returns a statement that asks for the lock of an operation, and fails unless the lock is granted.
func (s *Store) claimOrFail(opts store.BeginOptions) string {
	return fill(mysqlFail, raw(fill("? or coalesce(get_lock(?, 0), 0) <> 1", raw(s.replica(opts)), s.lockName(opts.ID))))
}

// lastMySQL arranges that the writes are sent together with COMMIT. It returns false if they cannot be sent in this way.
func (t *txn) lastMySQL(c store.Change) bool {
	size := sizeMySQL(c)
	var last []sqlguard.Statement
	for _, w := range sqlplane.InLockOrder(c.Writes) {
		// The text may contain a second statement in a comment or in quotes, or its placeholders may not match its
		// arguments.
		if strings.ContainsAny(w.SQL, ";#*\\") || strings.Contains(w.SQL, "--") || strings.Count(w.SQL, "?") != len(w.Args) {
			return false
		}
		if size += int64(len(w.SQL)); len(w.Args) > 0 {
			size += 2*largestValue(w.Args)*int64(len(w.Args)) + mysqlRest
		}
		last = append(last, sqlguard.Statement{Text: w.SQL, Args: w.Args})
		if w.Rows != 0 {
			last = append(last, sqlguard.Statement{Text: fill(mysqlFail, raw("row_count() <> "+strconv.Itoa(w.Rows)))})
		}
	}
	if size > t.s.packet.Load()/2 { // each write may still fit into a separate packet
		return false
	}
	t.guard.Last(last...)
	return true
}

// notOpened returns the error of a claim that was sent with the first statement and has failed. Otherwise it returns
// nil.
func (t *txn) notOpened() error {
	err := t.guard.OpeningFailed()
	if err == nil || !t.blind {
		return nil
	}
	code, answered := sqlguard.MySQLCode(err)
	switch {
	case code == mysqlOutOfRange && strings.Contains(err.Error(), "get_lock"):
		return &store.Error{Kind: store.KindTaken, Err: err}
	case !answered && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // the connection perhaps broke while it was idle; Begin connects again after an error of this kind
		return &store.Error{Kind: store.KindRetry, Err: err}
	}
	return nil
}

// openBlind sends the claim of a first attempt if the handler has run no statement.
func (t *txn) openBlind(ctx context.Context) error {
	if !t.blind || t.batch {
		return nil
	}
	// The claim is not sent together with COMMIT. If that answer were lost, a look-up that finds no record would not
	// prove that nothing was applied.
	return sqlguard.OpenTx(ctx, t.tx)
}

// blindly classifies the error of a COMMIT that was sent together with a claim or with writes.
func (t *txn) blindly(err error) error {
	code, _ := sqlguard.MySQLCode(err)
	switch {
	case !t.blind, code != mysqlOutOfRange:
	case strings.Contains(err.Error(), "get_lock"):
		return &store.Error{Kind: store.KindTaken, Err: err}
	case strings.Contains(err.Error(), "row_count"):
		return &store.Error{Kind: store.KindOther, Err: fmt.Errorf("%w: %w", store.ErrRows, err)}
	}
	return err
}
