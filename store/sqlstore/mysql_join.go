package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// claimMySQL claims in a transaction of the caller, after the savepoint of the join. It waits neither for another
// holder of the claim nor for the row of this holder. In a SERIALIZABLE transaction, a look-up without a result would lock
// a gap in the index, and block other keys. So such a transaction does not look the record up.
func (j *joined) claimMySQL(ctx context.Context, opts store.BeginOptions) error {
	unlock := j.s.unlock(opts.ID)
	j.guard.DoAfter(unlock) // before the statement, because the statement may take the lock and still fail
	found, locked, err := j.s.lockMySQL(ctx, j.caller, opts, !j.serializable())
	if err == nil && !locked {
		j.guard.DoNotAfter(unlock)
	}
	if err != nil || !locked {
		j.seen.row = found
		return err
	}
	id := []any{opts.ID.Scope, opts.ID.Key}
	for tries := 1; tries <= maxJoinTries; tries++ {
		how := mysqlClaim
		if found.expired {
			how = mysqlReclaim
		}
		if j.seen.granted, err = claimed(j.caller.ExecContext(ctx, fill(how, id...))); j.seen.granted {
			return nil
		}
		if err != nil && !isLocked(err) && !is(err, mysqlDuplicate) {
			return err
		}
		if undo := j.rollback(ctx); undo != nil {
			return errors.Join(err, undo)
		}
		if isLocked(err) { // this join holds the claim, so no holder has locked a row: the insert has waited for a locked gap, and waits no longer
			return err
		}
		// The snapshot of the transaction is older than the record. A locking read sees the committed record.
		switch found, err = lookUp(ctx, j.caller, fill(mysqlRead+mysqlShare, id...)); {
		case isLocked(err) && tries == maxJoinTries:
			return j.rollback(ctx) // the operation is in flight
		case isLocked(err):
			if err := errors.Join(j.rollback(ctx), pause(ctx, tries)); err != nil {
				return err
			}
		case err != nil, found.live().State != store.StateAbsent:
			j.seen.row = found
			return err
		}
	}
	return &store.Error{Kind: store.KindRetry, Err: errVanished}
}

// mysqlShare makes a read lock its rows against changes, without waiting. MySQL and MariaDB have different words for it.
const mysqlShare = " /*!80000 for share nowait */ /*M! lock in share mode nowait */"

var errVanished = errors.New("other transactions have inserted and deleted the row of the operation while this transaction tried to claim the operation")

// pause waits for a random time, so that a transaction with a lock can end. The time grows with each try.
func pause(ctx context.Context, tries int) error {
	select {
	case <-time.After(rand.N(time.Duration(tries*tries) * time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxJoinTries limits how long a join waits for an operation in flight: about 15 ms. The caller's transaction waits for
// the join.
const maxJoinTries = 5

// serializable reports whether each read of the transaction locks its rows.
func (j *joined) serializable() bool {
	level := j.guard.Isolation()
	return level == sql.LevelSerializable || level == sql.LevelDefault && j.s.serializable
}

// reclaimMySQL claims again, after the undo has removed the claim together with the writes of the handler.
func (j *joined) reclaimMySQL(ctx context.Context) error {
	j.seen = lookup{}
	switch err := j.claimMySQL(ctx, store.BeginOptions{ID: j.id}); {
	case err != nil:
		return j.s.failed(err, true)
	case !j.seen.granted:
		return &store.Error{Kind: store.KindTaken, Err: errExpect}
	}
	return nil
}

// complete returns an error if the rollback could not undo writes to tables without transactions. These may be writes
// of the join or of the caller: MySQL does not distinguish the two.
func (j *joined) complete(ctx context.Context) (err error) {
	warnings, err := j.caller.QueryContext(ctx, "show warnings")
	if err != nil {
		return err
	}
	// The connection can run no other statement while the rows are open.
	defer func() { _ = warnings.Close() }()
	incomplete := false
	for warnings.Next() {
		var level, message string
		var code int
		if err := warnings.Scan(&level, &code, &message); err != nil {
			return err
		}
		incomplete = incomplete || code == mysqlIncomplete
	}
	if err := errors.Join(warnings.Err(), warnings.Close()); err != nil {
		return err
	}
	if incomplete && j.guard.HasTemporary() { // the warning may come from temporary tables only
		if err := j.caller.QueryRowContext(ctx, sqlguard.HasNotTransactional).Scan(&incomplete); err != nil {
			return err
		}
	}
	if incomplete {
		return sqlguard.ErrIncomplete
	}
	if !j.id.IsZero() {
		j.guard.DropIfIncomplete(j.s.recordUnknown(j.id))
	}
	return nil
}

// leaveUnknown records the operation as unknown in the caller's transaction. If this transaction is rolled back, the
// guard writes the record.
func (j *joined) leaveUnknown(ctx context.Context) error {
	if j.id.IsZero() || !j.begun {
		return nil
	}
	_, err := j.caller.ExecContext(ctx, j.s.recordUnknown(j.id))
	return err
}

// lookUp runs a statement of lookMySQL.
func lookUp(ctx context.Context, in interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, look string) (row, error) {
	r, err := scan(in.QueryRowContext(ctx, look))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return row{}, nil
	case err == nil && r.State == stateReplica:
		return row{}, errReplica
	}
	return r, err
}

// noWait returns a statement of MariaDB in a form that does not wait for locks.
func noWait(statement string) string {
	return "set statement innodb_lock_wait_timeout = 0 for " + statement
}
