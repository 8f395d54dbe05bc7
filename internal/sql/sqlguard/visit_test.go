package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"testing"
)

// TestJoinTx: nothing is sent for a transaction that is guarded, and one round trip for another
// one of the same *sql.DB. From then on a failed statement keeps it from committing.
func TestJoinTx(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, first := begun(t, f, PostgreSQL)
	view := new(Txn)
	must(t, view.JoinTx(t.Context(), tx, "INSERT"))
	wantCalls(t, f)
	if n := first.Statements(); n != 0 || !view.Armed() {
		t.Errorf("%d statements, armed %v", n, view.Armed())
	}
	FailTx(t.Context(), tx, "INSERT", errDriver)
	if !errors.Is(first.Err(), errDriver) || !errors.Is(view.Err(), errDriver) {
		t.Errorf("%v, %v", first.Err(), view.Err())
	}
	if err := tx.Commit(); !errors.As(err, new(*RefusedError)) {
		t.Errorf("Commit() = %v", err)
	}

	tx, err := open(t, f, PostgreSQL).BeginTx(t.Context(), nil)
	must(t, err)
	f.took()
	must(t, new(Txn).JoinTx(t.Context(), tx, "INSERT"))
	must(t, new(Txn).JoinTx(t.Context(), tx, "INSERT"))
	wantCalls(t, f, "exec SAVEPOINT once_join; RELEASE SAVEPOINT once_join")
	FailTx(t.Context(), tx, "INSERT", errDriver)
	if err := tx.Commit(); !errors.Is(err, errDriver) {
		t.Errorf("Commit() = %v", err)
	}
}

// TestJoinTxFails: a transaction that cannot be joined does not commit what it has.
func TestJoinTxFails(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, err := open(t, f, PostgreSQL).BeginTx(t.Context(), nil)
	must(t, err)
	f.failing("exec SAVEPOINT once_join; RELEASE SAVEPOINT once_join", errDriver)
	if err := new(Txn).JoinTx(t.Context(), tx, "INSERT"); !errors.Is(err, errDriver) {
		t.Errorf("JoinTx() = %v", err)
	}
	if err := tx.Commit(); !errors.Is(err, errDriver) {
		t.Errorf("Commit() = %v", err)
	}
}

// TestJoinTxCancelled: the end of the context does not keep the guard from being told.
func TestJoinTxCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tx, txn := begun(t, newFake(), SQLite)
	if err := new(Txn).JoinTx(ctx, tx, "INSERT"); !errors.Is(err, context.Canceled) || !errors.Is(txn.Err(), context.Canceled) {
		t.Errorf("JoinTx() = %v, Err() = %v", err, txn.Err())
	}
	tx, txn = begun(t, newFake(), SQLite)
	_, err := tx.ExecContext(ctx, "INSERT")
	if !errors.Is(err, context.Canceled) || txn.Err() != nil {
		t.Fatalf("%v, %v: database/sql says it to the driver", err, txn.Err())
	}
	FailTx(ctx, tx, "INSERT", err)
	if !errors.Is(txn.Err(), context.Canceled) {
		t.Errorf("Err() = %v", txn.Err())
	}
}

func TestJoinTxRefused(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, err := sql.OpenDB(f).BeginTx(t.Context(), nil)
	must(t, err)
	f.took()
	if err := new(Txn).JoinTx(t.Context(), tx, "INSERT"); !errors.Is(err, ErrUnguarded) {
		t.Errorf("JoinTx() = %v", err)
	}
	wantCalls(t, f, "exec "+visitText)
	must(t, tx.Rollback())
	if err := new(Txn).JoinTx(t.Context(), tx, "INSERT"); !errors.Is(err, sql.ErrTxDone) || errors.Is(err, ErrUnguarded) {
		t.Errorf("JoinTx() after the end = %v", err)
	}
}
