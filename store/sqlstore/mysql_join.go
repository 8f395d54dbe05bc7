package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/oncelib/once/store"
)

// claimMySQL claims in a transaction of the caller, behind the savepoint of the join. The
// look-up comes first, so that a replay locks nothing; it may see an old state.
func (j *joined) claimMySQL(ctx context.Context) error {
	id := []any{j.id.Scope, j.id.Key}
	if err := j.read(ctx, fill(mysqlRead, id...)); err != nil || j.claim.row.live().State != store.Absent {
		return err
	}
	how := mysqlClaim
	if j.claim.row.expired {
		how = mysqlReclaim
	}
	var err error
	j.claim.row = row{}
	j.claim.granted, err = claimed(j.caller.ExecContext(ctx, j.s.noWait(fill(how, id...))))
	_, taken, _ := classifyMySQL(err)
	switch {
	case j.claim.granted, err != nil && !taken:
		return err
	case err != nil:
		if err := j.rollback(ctx); err != nil {
			return err
		}
	}
	if locked(err) {
		return nil // it is in flight
	}
	// The transaction may be older than the record that is there, a locking read is not.
	err = j.read(ctx, j.s.noWait(fill(mysqlRead, id...)+" lock in share mode"))
	if locked(err) {
		err = j.rollback(ctx)
	}
	return err
}

// reclaimMySQL repeats a claim that was undone, with all that the handler has done.
func (j *joined) reclaimMySQL(ctx context.Context) error {
	j.claim = claim{}
	switch err := j.claimMySQL(ctx); {
	case err != nil:
		return j.s.failed(err, true)
	case !j.claim.granted:
		return &store.Error{Kind: store.Taken, Err: errExpect}
	}
	return nil
}

func (j *joined) read(ctx context.Context, query string) (err error) {
	j.claim.row, err = scan(j.caller.QueryRowContext(ctx, query))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return err
}

// noWait is a statement that does not wait for locks. MySQL waits as long as the session
// says.
func (s *Store) noWait(statement string) string {
	if s.compound {
		return "set statement innodb_lock_wait_timeout = 0 for " + statement
	}
	return statement
}
