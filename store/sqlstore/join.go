package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// joinName returns the name of the savepoint of a join. One name is enough for a join inside a join: the database uses
// the newest savepoint of a name, and no join leaves its savepoint behind. On MySQL, a new savepoint replaces an older
// one of the same name, so each join has another name.
func (s *Store) joinName() string {
	if s.dialect.name == sqlplane.MySQL {
		return "once_join_" + strconv.FormatInt(s.joins.Add(1), 10)
	}
	return "once_join"
}

// Join implements [store.Joiner]. After Join, a statement error in the caller's transaction prevents the
// commit of this transaction, unless the caller has rolled back to a savepoint that was set before the
// failed statement. The claim is held until the transaction ends. With a zero opts.ID, Join only sets a
// savepoint.
func (s *Store) Join(ctx context.Context, caller *sql.Tx, opts store.BeginOptions) (store.Transaction[*sql.Tx], store.Record, error) {
	j := &joined{s: s, caller: caller, guard: new(sqlguard.Txn), id: opts.ID, name: s.joinName()}
	if err := j.savepoint(j.guard.Join(ctx)); err != nil {
		return nil, store.Record{}, s.down(err)
	}
	if !j.guard.Armed() {
		err := j.release(ctx)
		return nil, store.Record{}, &store.Error{Kind: store.KindMisused, Err: errors.Join(errUnguarded, err)}
	}
	asked := j.guard.Exempt() // the function Refuse of the handler around this join
	if opts.Refuse != nil {
		asked = opts.Refuse
	}
	defer j.guard.Refuse(asked)
	if opts.ID.IsZero() {
		j.began()
		return j, store.Record{}, nil
	}
	if err := j.look(ctx, opts); err != nil {
		_ = j.undo(ctx) // the undo cannot say more than err
		return nil, store.Record{}, s.down(err)
	}
	rec, free := j.seen.verdict()
	if !free {
		var err error
		if s.dialect.name == sqlplane.PostgreSQL {
			err = j.rollback(ctx) // the rollback to the savepoint releases the claim
		}
		if err == nil && opts.Durable && rec.State == store.StateDone && s.dialect.synced != "" { // also if the caller writes nothing
			_, err = caller.ExecContext(ctx, s.dialect.synced)
		}
		if err == nil {
			err = j.release(ctx)
		}
		if err != nil {
			err = s.down(err)
		}
		return nil, rec, err
	}
	if late := s.checkDeadline(ctx, caller, opts.StaleAfter); late != nil {
		_ = j.undo(ctx)
		return nil, store.Record{}, late
	}
	if err := j.countClaim(); err != nil {
		_ = j.undo(ctx)
		return nil, store.Record{}, err
	}
	j.began()
	return j, rec, nil
}

// began passes the transaction to the handler.
func (j *joined) began() {
	j.begun = true
	if j.s.dialect.name == sqlplane.MySQL && !j.id.IsZero() {
		j.guard.IfIncomplete(j.s.recordUnknown(j.id))
	}
	j.ownStatements = j.guard.Statements()
	j.inHandler = j.guard.ForbidCommit()
}

// countClaim counts a claim that j holds until the caller's transaction ends. Only PostgreSQL needs it, because many
// claims would fill the lock table of the server.
func (j *joined) countClaim() error {
	if j.s.dialect.name != sqlplane.PostgreSQL {
		return nil
	}
	if j.guard.Claims(+1) > pgsql.MaxJoins {
		j.guard.Claims(-1)
		return &store.Error{Kind: store.KindMisused, Err: fmt.Errorf("sqlstore: %w", pgsql.ErrMaxJoins)}
	}
	j.counted = true
	return nil
}

// uncountClaim reverts countClaim, after the rollback to the savepoint has released the lock.
func (j *joined) uncountClaim() {
	if j.counted {
		j.guard.Claims(-1)
		j.counted = false
	}
}

// look claims the operation and looks the record up.
func (j *joined) look(ctx context.Context, opts store.BeginOptions) (err error) {
	if j.s.dialect.name == sqlplane.MySQL {
		return j.claimMySQL(ctx, opts)
	}
	if j.s.dialect.name == sqlplane.PostgreSQL {
		if j.seen, err = claimPostgres(ctx, j.caller, opts); err == nil && j.seen.watched {
			err = j.seen.lookWatched(ctx, j.caller, opts.ID)
		}
		return err
	}
	// On SQLite a write comes before the look-up. A transaction that has only read gets the write lock of the file here,
	// where it can still wait for this lock.
	began := time.Now()
	_, err = j.caller.ExecContext(ctx, j.s.dialect.expired, opts.ID.Scope, opts.ID.Key)
	addLockWait(opts.Waits, began)
	if err == nil {
		j.seen, err = j.s.dialect.claim(ctx, j.caller, opts)
	}
	return err
}

// joined is a transaction inside the caller's transaction, with a savepoint and a claim.
type joined struct {
	s             *Store
	caller        *sql.Tx
	guard         *sqlguard.Txn
	id            store.ID
	name          string // of the savepoint
	seen          lookup
	ownStatements int  // the number of statements of the store, before the statements of the handler
	inHandler     bool // the caller's transaction belongs to another handler, and this join runs inside it
	begun         bool // the handler has got the transaction
	// undone is true after a rollback to the savepoint.
	undone  bool
	counted bool // see countClaim
}

func (j *joined) Tx() *sql.Tx { return j.caller }

// Statements implements [ability.Counter].
func (j *joined) Statements() int { return j.guard.Statements() - j.ownStatements }

func (j *joined) Rollback(ctx context.Context) error {
	if j.undone {
		return nil
	}
	j.takeBack()
	defer j.guard.Refuse(j.guard.Exempt())
	j.undone = true
	lost := j.guard.RolledBack(guards[j.s.dialect.name]) // asked before undo, because undo can fail, too, and only failures of the handler count
	err := j.stands(j.undo(ctx))
	switch {
	case err == nil:
		j.uncountClaim()
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return &store.Error{Kind: store.KindMisused, Err: errOver}
	case errors.Is(err, sqlguard.ErrIncomplete):
		return &store.Error{Kind: store.KindEnded, Err: err}
	case noSavepoint(err) && !lost:
		return &store.Error{Kind: store.KindEnded, Err: errors.Join(errNoSavepoint, err)}
	}
	return j.s.down(err)
}

// takeBack allows COMMIT again. COMMIT was refused while the handler had the transaction.
func (j *joined) takeBack() {
	if !j.inHandler {
		j.guard.AllowCommit()
	}
}

var errNoSavepoint = errors.New("the savepoint of once.Join does not exist any more: the handler has released the savepoint or ended the transaction")

// noSavepoint reports whether err says that the savepoint does not exist.
func noSavepoint(err error) bool {
	switch sqlguard.SQLState(err) {
	case "25P01", "3B001":
		return true
	}
	return is(err, 1305) || strings.Contains(err.Error(), "no such savepoint")
}

func (j *joined) savepoint(ctx context.Context) error { return j.exec(ctx, "savepoint ") }

func (j *joined) release(ctx context.Context) error { return j.exec(ctx, "release savepoint ") }

func (j *joined) rollback(ctx context.Context) error { return j.exec(ctx, "rollback to savepoint ") }

func (j *joined) exec(ctx context.Context, control string) error {
	_, err := j.caller.ExecContext(ctx, control+j.name)
	return err
}

// undo rolls back to the savepoint and releases it.
func (j *joined) undo(ctx context.Context) error {
	// If ctx has ended, the writes must still be undone, because the caller's transaction may commit.
	ctx = context.WithoutCancel(ctx)
	if err := j.rollback(ctx); err != nil {
		return err
	}
	if j.s.dialect.name == sqlplane.MySQL {
		if err := j.complete(ctx); err != nil {
			// Some writes could not be rolled back, so the record must say that the outcome is not known.
			return errors.Join(err, j.leaveUnknown(ctx), j.release(ctx))
		}
	}
	return j.release(ctx)
}

func (j *joined) Commit(ctx context.Context, c store.Change) error {
	j.takeBack()
	defer j.guard.Refuse(j.guard.Exempt())
	t := txn{s: j.s, id: j.id, tx: j.caller, guard: j.guard, seen: j.seen}
	// The undo has released the savepoint, and a failure below must be undone as well.
	if j.undone {
		if err := j.savepoint(ctx); err != nil {
			return j.s.failed(err, false)
		}
	}
	var err error
	switch {
	case j.id.IsZero() && !c.ID.IsZero() && c.Expect.Fence == 0:
		err = j.countClaim()
	case j.id.IsZero() || !j.undone:
	case j.s.dialect.name == sqlplane.MySQL: // the undo has also removed the row of the claim
		err = j.reclaimMySQL(ctx)
	case j.s.dialect.name == sqlplane.SQLite: // the undo has restored the expired record that the look-up had deleted
		t.seen.row.expired = true
	}
	if err == nil {
		err = t.write(ctx, c)
	}
	if err == nil {
		if err = j.release(ctx); err == nil {
			return nil
		}
		if noSavepoint(err) {
			err = &store.Error{Kind: store.KindEnded, Err: errors.Join(errNoSavepoint, err)}
		} else {
			err = j.s.failed(err, false)
		}
	}
	undo := j.undo(ctx)
	if undo == nil {
		j.uncountClaim()
	}
	if undo = j.stands(undo); errors.Is(undo, sqlguard.ErrIncomplete) {
		err = &store.Error{Kind: store.KindEnded, Err: errors.Join(undo, err)}
	}
	return err
}

// stands returns the error of an undo. If an earlier deadlock has rolled the transaction back incompletely, the
// error also says that some writes remain.
func (j *joined) stands(undo error) error {
	if undo == nil {
		return nil
	}
	return errors.Join(undo, j.guard.Incomplete())
}
