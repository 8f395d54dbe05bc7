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

// If the server takes several statements in a packet, a first attempt and a batch are not looked up: the claim
// is sent with the first statement, and an existing record makes the insert fail on its primary key. A batch is
// one packet: it is claimed by its COMMIT. If a batch fails on any primary key, the next try looks up and then
// runs statement by statement.

// mysqlFail is a number beyond the largest if a condition is true, so that its statement fails and the server ends the packet. DO would not fail.
const mysqlFail = "set @once_failed = ~0 + (?)"

const mysqlOutOfRange = 1690

// claimOrFail asks for the lock of an operation, and fails unless it is granted.
func (s *Store) claimOrFail(opts store.BeginOptions) string {
	return fill(mysqlFail, raw(fill("? or coalesce(get_lock(?, 0), 0) <> 1", raw(s.replica(opts)), s.lockName(opts.ID))))
}

// lastMySQL sends writes together with COMMIT, and reports whether it has.
func (t *txn) lastMySQL(c store.Change) bool {
	size := sizeMySQL(c)
	var last []sqlguard.Statement
	for _, w := range sqlplane.InLockOrder(c.Writes) {
		// The text may contain the end of another statement in a comment or in quotes, or use the arguments of
		// another statement.
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
	if size > t.s.packet.Load()/2 { // each write alone may fit in a packet
		return false
	}
	t.guard.Last(last...)
	return true
}

// notOpened is the error of a blind claim that has failed with the first statement.
func (t *txn) notOpened() error {
	err := t.guard.OpeningFailed()
	if err == nil || !t.blind {
		return nil
	}
	code, answered := sqlguard.MySQLCode(err)
	switch {
	case code == mysqlOutOfRange && strings.Contains(err.Error(), "get_lock"):
		return &store.Error{Kind: store.KindTaken, Err: err}
	case !answered && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // perhaps the connection broke while it was idle; Begin connects again for this kind
		return &store.Error{Kind: store.KindRetry, Err: err}
	}
	return nil
}

// openBlind sends the claim of a first attempt whose handler has run no statement.
func (t *txn) openBlind(ctx context.Context) error {
	if !t.blind || t.batch {
		return nil
	}
	// Not together with COMMIT: if the answer to that were lost, a look-up that finds no record would prove
	// nothing.
	return sqlguard.OpenTx(ctx, t.tx)
}

// blindly is the error of a COMMIT with which a claim or writes have travelled.
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
