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

// claimMySQL claims in a transaction of the caller, behind the savepoint of the join. It waits neither for those who have the claim nor for
// their rows. A SERIALIZABLE transaction locks the place of what it does not find, against all the keys that belong there: so it does not look.
func (j *joined) claimMySQL(ctx context.Context, opts store.BeginOptions) error {
	unlock := j.s.unlock(opts.ID)
	j.guard.DoAfter(unlock) // before the statement, which may have the lock and fail all the same
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
		if isLocked(err) { // a gap between rows, and not the row of a holder: it was waited for
			return err
		}
		// What the transaction sees is older than the record. This look sees what is committed.
		switch found, err = lookUp(ctx, j.caller, fill(mysqlRead+mysqlShare, id...)); {
		case isLocked(err) && tries == maxJoinTries:
			return j.rollback(ctx) // in flight
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

// mysqlShare locks what is read against changes, and does not wait for that. MariaDB has other words for it.
const mysqlShare = " /*!80000 for share nowait */ /*M! lock in share mode nowait */"

var errVanished = errors.New("the operation's row, or its place, was locked, and then there was none")

// pause waits for the end of a transaction that has a lock, longer with each try.
func pause(ctx context.Context, tries int) error {
	select {
	case <-time.After(rand.N(time.Duration(tries*tries) * time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxJoinTries bounds how long a join whose operation is in flight keeps the transaction of
// its caller waiting: for some 15 ms.
const maxJoinTries = 5

// serializable reports whether each look of the transaction locks what it looks for.
func (j *joined) serializable() bool {
	level := j.guard.Isolation()
	return level == sql.LevelSerializable || level == sql.LevelDefault && j.s.serializable
}

// reclaimMySQL repeats a claim that was undone, with all that the handler has done.
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

// complete returns an error if what the join has written to tables that are not transactional
// stands, or what the caller had written to such tables before: MySQL makes no difference.
func (j *joined) complete(ctx context.Context) (err error) {
	warnings, err := j.caller.QueryContext(ctx, "show warnings")
	if err != nil {
		return err
	}
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
	if incomplete && j.guard.HasTemporary() { // the warning may be of temporary tables only
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

// leaveUnknown records the operation as unknown in the caller's transaction. If that is rolled back, the guard does it.
func (j *joined) leaveUnknown(ctx context.Context) error {
	if j.id.IsZero() || !j.begun {
		return nil
	}
	_, err := j.caller.ExecContext(ctx, j.s.recordUnknown(j.id))
	return err
}

// lookUp runs what lookMySQL has made.
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

// noWait is a statement of MariaDB that does not wait for locks.
func noWait(statement string) string {
	return "set statement innodb_lock_wait_timeout = 0 for " + statement
}
