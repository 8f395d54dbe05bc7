package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/oncelib/once/internal/sqlguard"
	"github.com/oncelib/once/store"
)

// One name does for joins inside of joins: the newest savepoint of a name is meant,
// and each join leaves none behind.
const (
	savepoint = "savepoint once_join"
	release   = "release savepoint once_join"
	undo      = "rollback to savepoint once_join"
)

// Join implements [store.Joiner]. From here on the caller's transaction is guarded:
// after a statement error it commits only if a rollback to an older savepoint has
// undone it. The claim is held until the transaction ends.
func (s *Store) Join(ctx context.Context, caller *sql.Tx, ask store.Ask) (store.Txn[*sql.Tx], store.Record, error) {
	j := &joined{s: s, caller: caller, guard: new(sqlguard.Txn), id: ask.ID}
	if _, err := caller.ExecContext(j.guard.Join(ctx), savepoint); err != nil {
		return nil, store.Record{}, s.down(err)
	}
	if !j.guard.Armed() {
		_, err := caller.ExecContext(ctx, release)
		return nil, store.Record{}, &store.Error{Kind: store.Misused, Err: errors.Join(errUnguarded, err)}
	}
	// A write before the look-up: a SQLite transaction that has only read so far gets
	// the file's lock here, where waiting for it still helps.
	_, err := caller.ExecContext(ctx, s.dialect.expired, ask.ID.Scope, ask.ID.Key)
	if err == nil {
		j.claim, err = s.dialect.claim(ctx, caller, ask)
	}
	if err != nil {
		_ = j.undo(ctx) // what went wrong is in err
		return nil, store.Record{}, s.down(err)
	}
	rec, free := j.claim.verdict()
	if !free {
		if ask.Durable && rec.State == store.Done && s.dialect.synced != "" { // also for a caller who writes nothing
			_, err = caller.ExecContext(ctx, s.dialect.synced)
		}
		if err == nil {
			_, err = caller.ExecContext(ctx, release)
		}
		if err != nil {
			err = s.down(err)
		}
		return nil, rec, err
	}
	if late := s.late(ctx, caller, ask); late != nil {
		_ = j.undo(ctx)
		return nil, store.Record{}, late
	}
	j.before = j.guard.Statements()
	return j, rec, nil
}

// joined is a claim inside a transaction of the caller.
type joined struct {
	s      *Store
	caller *sql.Tx
	guard  *sqlguard.Txn
	id     store.ID
	claim  claim
	before int
	undone bool
}

func (j *joined) Tx() *sql.Tx { return j.caller }

// Statements implements [store.Counter].
func (j *joined) Statements() int { return j.guard.Statements() - j.before }

func (j *joined) Rollback(ctx context.Context) error {
	j.undone = true
	if err := j.undo(ctx); err != nil {
		return j.s.down(err)
	}
	return nil
}

func (j *joined) undo(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := j.caller.ExecContext(ctx, undo); err != nil {
		return err
	}
	_, err := j.caller.ExecContext(ctx, release)
	return err
}

func (j *joined) Commit(ctx context.Context, c store.Change) error {
	t := txn{s: j.s, tx: j.caller, guard: j.guard, claim: j.claim}
	if j.undone {
		if _, err := j.caller.ExecContext(ctx, savepoint); err != nil {
			return j.s.failed(err, false)
		}
	}
	err := t.write(ctx, c)
	if err == nil {
		if _, err = j.caller.ExecContext(ctx, release); err == nil {
			return nil
		}
		err = j.s.failed(err, false)
	}
	_ = j.undo(ctx)
	return err
}
