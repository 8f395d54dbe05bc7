package sqlguard

import (
	"database/sql"
	"errors"
	"testing"
)

func TestForbidCommit(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, SQLite)
	txn.ForbidCommit()
	_, err := tx.Exec("UPDATE t")
	must(t, err)
	if err := tx.Commit(); !errors.Is(err, ErrCommitForbidden) {
		t.Errorf("Commit() while forbidden = %v", err)
	}
	wantCalls(t, f, "exec UPDATE t", "exec ROLLBACK")
	if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("second Commit() = %v", err)
	}

	tx, txn = begun(t, f, SQLite)
	txn.ForbidCommit()
	txn.AllowCommit()
	must(t, tx.Commit())
	wantCalls(t, f, "exec COMMIT")
}

// TestViewsShareOneGuard: code that joins a transaction that is guarded already sees through
// the guard that is there, as often as they like.
func TestViewsShareOneGuard(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, SQLite)
	view := new(Txn)
	ctx := view.Join(t.Context())
	for range 2 {
		_, err := tx.ExecContext(ctx, "SELECT 1")
		must(t, err)
	}
	wantCalls(t, f, "exec SELECT 1", "exec SELECT 1")
	f.failing("exec UPDATE t", errDriver)
	_, _ = tx.Exec("UPDATE t")
	if view.Err() == nil || !errors.Is(view.Err(), txn.Err()) || view.Statements() != 3 {
		t.Errorf("the view has %v after %d, the guard %v", view.Err(), view.Statements(), txn.Err())
	}
	must(t, tx.Rollback())

	tx, txn = begun(t, f, SQLite)
	view = new(Txn)
	_, err := tx.ExecContext(view.Join(t.Context()), "SELECT 1")
	must(t, err)
	view.ForbidCommit()
	if err := tx.Commit(); !errors.Is(err, ErrCommitForbidden) {
		t.Errorf("Commit() while a view forbids it = %v", err)
	}
	must(t, txn.Err())
}

// TestUsedTxnIsNoView: its own transaction may still be open elsewhere.
func TestUsedTxnIsNoView(t *testing.T) {
	t.Parallel()
	f := newFake()
	_, other := begun(t, newFake(), SQLite)
	tx, _ := begun(t, f, SQLite)
	if _, err := tx.ExecContext(other.Join(t.Context()), "SELECT 1"); !errors.Is(err, errForeign) {
		t.Errorf("got %v", err)
	}
	must(t, tx.Rollback())
}

// TestJoinArms: where no guard is yet, Join is Context.
func TestJoinArms(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, err := open(t, f, PostgreSQL).BeginTx(t.Context(), nil)
	must(t, err)
	txn := new(Txn)
	_, err = tx.ExecContext(txn.Join(t.Context()), "SELECT 1")
	must(t, err)
	f.failing("exec UPDATE t", errDriver)
	_, _ = tx.Exec("UPDATE t")
	if !errors.Is(tx.Commit(), errDriver) || txn.Err() == nil {
		t.Error("not guarded")
	}
}
