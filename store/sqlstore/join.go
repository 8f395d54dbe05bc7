package sqlstore

import (
	"context"
	"database/sql"

	"github.com/oncelib/once/internal/sqlguard"
	"github.com/oncelib/once/store"
)

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
		_, err := caller.ExecContext(ctx, release)
		if err != nil {
			err = s.down(err)
		}
		return nil, rec, err
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
}

func (j *joined) Tx() *sql.Tx { return j.caller }

// Statements implements [store.Counter].
func (j *joined) Statements() int { return j.guard.Statements() - j.before }

func (j *joined) Rollback(ctx context.Context) error {
	if err := j.undo(ctx); err != nil {
		return j.s.down(err)
	}
	return nil
}

func (j *joined) undo(ctx context.Context) error {
	_, err := j.caller.ExecContext(context.WithoutCancel(ctx), undo)
	return err
}

func (j *joined) Commit(ctx context.Context, c store.Change) error {
	t := txn{s: j.s, tx: j.caller, guard: j.guard, claim: j.claim}
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
