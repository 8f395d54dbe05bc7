package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/oncelib/once/store"
)

// claimMySQL claims in a transaction of the caller, behind the savepoint of the join. The
// look-up comes first, so that a replay locks nothing; it may see an old state, which the
// claim finds out, and a second look, which locks, does not. Whatever is locked is in
// flight.
func (j *joined) claimMySQL(ctx context.Context) error {
	id := []any{j.id.Scope, j.id.Key}
	look := fill(mysqlRead, id...)
	for _, look := range []string{look, j.s.noWait(look + " lock in share mode")} {
		found, err := j.read(ctx, look)
		if err == nil && found.live().State != store.Absent {
			j.claim.row = found
			return nil
		}
		if err == nil {
			how := mysqlClaim
			if found.expired {
				how = mysqlReclaim
			}
			j.claim.granted, err = claimed(j.caller.ExecContext(ctx, j.s.noWait(fill(how, id...))))
		}
		if j.claim.granted || err == nil {
			return nil
		}
		if _, taken, _ := classifyMySQL(err); !taken {
			return err
		}
		if err := j.rollback(ctx); err != nil {
			return err
		}
		if locked(err) {
			return nil
		}
	}
	return nil
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

func (j *joined) read(ctx context.Context, query string) (row, error) {
	r, err := scan(j.caller.QueryRowContext(ctx, query))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return r, err
}

// noWait is a statement that does not wait for locks. MySQL waits as long as the session
// says.
func (s *Store) noWait(statement string) string {
	if s.compound {
		return "set statement innodb_lock_wait_timeout = 0 for " + statement
	}
	return statement
}
