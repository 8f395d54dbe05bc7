package sqlguard

import (
	"errors"
	"testing"
)

func TestJoinChecksTheTransaction(t *testing.T) {
	t.Parallel()
	within := errors.New("cannot start a transaction within a transaction")
	for _, tt := range []struct {
		d      Dialect
		alive  []string
		commit []string
	}{
		{PostgreSQL, []string{"exec SAVEPOINT once_join; RELEASE SAVEPOINT once_join"}, []string{"exec SAVEPOINT once_commit", "commit"}},
		{MySQL, []string{"exec " + setMark, "exec " + releaseMark}, []string{"commit"}},
		{SQLite, []string{"exec BEGIN"}, []string{"commit"}},
	} {
		for _, how := range []string{"exec", "query", "prepare"} {
			t.Run(tt.d.String()+"/"+how, func(t *testing.T) {
				t.Parallel()
				f := newFake()
				f.failing("exec BEGIN", within)
				tx, err := open(t, f, tt.d).BeginTx(t.Context(), nil)
				must(t, err)
				_, err = tx.Exec("COMMIT") // not guarded yet, none of our business
				must(t, err)
				f.took()

				txn := new(Txn)
				ctx := txn.Context(t.Context())
				switch how {
				case "exec":
					_, err = tx.ExecContext(ctx, "SELECT 1")
				case "query":
					err = drained(tx.QueryContext(ctx, "SELECT 1"))
				case "prepare":
					_, err = tx.PrepareContext(ctx, "SELECT 1")
				}
				must(t, err)
				if got := f.took()[:len(tt.alive)]; got[0] != tt.alive[0] {
					t.Errorf("checked by %v", got)
				}

				f.failing("exec UPDATE t", errDriver)
				_, _ = tx.Exec("UPDATE t")
				if !errors.Is(txn.Err(), errDriver) {
					t.Errorf("Err() = %v", txn.Err())
				}
				f.took()
				if _, err := tx.Exec("SELECT 2"); err == nil {
					t.Error("not refused")
				}
				if err := tx.Commit(); !errors.Is(err, errDriver) {
					t.Errorf("Commit() = %v", err)
				}
				wantCalls(t, f, "rollback")
			})
		}
		t.Run(tt.d.String()+"/commit", func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.failing("exec BEGIN", within)
			tx, err := open(t, f, tt.d).BeginTx(t.Context(), nil)
			must(t, err)
			ctx := new(Txn).Context(t.Context())
			for range 2 { // the second statement finds it joined
				_, err = tx.ExecContext(ctx, "SELECT 1")
				must(t, err)
			}
			wantCalls(t, f, append(append([]string{"begin"}, tt.alive...), "exec SELECT 1", "exec SELECT 1")...)
			must(t, tx.Commit())
			wantCalls(t, f, tt.commit...)
		})
		t.Run(tt.d.String()+"/too late", func(t *testing.T) {
			t.Parallel()
			f := newFake()
			switch tt.d {
			case PostgreSQL:
				f.failing(tt.alive[0], coded("25P01"))
			case MySQL:
				f.failing(tt.alive[0], errNoSavepoint)
			case SQLite:
				f.failing("exec BEGIN", nil)
			}
			tx, err := open(t, f, tt.d).BeginTx(t.Context(), nil)
			must(t, err)
			txn := new(Txn)
			if _, err := tx.ExecContext(txn.Context(t.Context()), "SELECT 1"); !errors.Is(err, ErrEnded) {
				t.Errorf("got %v", err)
			}
			if txn.phase.Load() != unused {
				t.Error("the Txn is used up")
			}
			must(t, tx.Rollback())
		})
	}
}

func TestJoinOfAFailedTransaction(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.failing("exec SAVEPOINT once_join; RELEASE SAVEPOINT once_join", coded("25P02"))
	tx, err := open(t, f, PostgreSQL).BeginTx(t.Context(), nil)
	must(t, err)
	if _, err := tx.ExecContext(new(Txn).Context(t.Context()), "SELECT 1"); SQLState(err) != "25P02" || errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
	must(t, tx.Rollback())
}

// TestJoinedCommit: a driver's COMMIT of a PostgreSQL transaction that was ended
// underneath, or is aborted, might report success.
func TestJoinedCommit(t *testing.T) {
	t.Parallel()
	for state, inDoubt := range map[string]bool{"25P01": true, "25P02": false} {
		f := newFake()
		tx, err := open(t, f, PostgreSQL).BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.ExecContext(new(Txn).Context(t.Context()), "SELECT 1")
		must(t, err)
		f.took()
		f.failing("exec SAVEPOINT once_commit", coded(state))
		var failed *CommitError
		if err := tx.Commit(); !errors.As(err, &failed) || failed.InDoubt != inDoubt {
			t.Errorf("%s: Commit() = %v", state, err)
		}
		wantCalls(t, f, "exec SAVEPOINT once_commit", "rollback")
	}
}

func TestOneTxnOneTransaction(t *testing.T) {
	t.Parallel()
	f := newFake()
	db := open(t, f, PostgreSQL)
	txn := new(Txn)
	ctx := txn.Context(t.Context())
	tx, err := db.BeginTx(ctx, nil)
	must(t, err)
	f.took()
	if _, err := tx.ExecContext(new(Txn).Context(t.Context()), "SELECT 1"); !errors.Is(err, errForeign) {
		t.Errorf("another Txn in the context: %v", err)
	}
	if !errors.Is(txn.Err(), errForeign) {
		t.Errorf("Err() = %v", txn.Err())
	}
	wantCalls(t, f)
	must(t, tx.Rollback())
	f.took()

	if _, err := db.BeginTx(ctx, nil); !errors.Is(err, errUsed) {
		t.Errorf("second BeginTx: %v", err)
	}
	for name, run := range map[string]func() error{
		"Exec":  func() error { _, err := db.ExecContext(ctx, "SELECT 1"); return err },
		"Query": func() error { _, err := db.QueryContext(ctx, "SELECT 1"); return err },
	} {
		if err := run(); !errors.Is(err, errOutside) {
			t.Errorf("%s outside: %v", name, err)
		}
	}
	wantCalls(t, f, "reset", "reset", "reset")

	stmt, err := db.PrepareContext(ctx, "SELECT 1") // prepares, runs nothing
	must(t, err)
	if _, err := stmt.ExecContext(ctx); !errors.Is(err, errOutside) {
		t.Errorf("Stmt.Exec outside: %v", err)
	}
	plain, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	if _, err := plain.ExecContext(ctx, "SELECT 1"); !errors.Is(err, errUsed) {
		t.Errorf("joined with a used Txn: %v", err)
	}
	must(t, plain.Commit())
}

// TestStatementPreparedBefore: a statement of the pool obeys the transaction it
// is used in, and is free again after it.
func TestStatementPreparedBefore(t *testing.T) {
	t.Parallel()
	f := newFake()
	db := open(t, f, SQLite)
	stmt, err := db.Prepare("UPDATE t")
	must(t, err)
	commit, err := db.Prepare("COMMIT")
	must(t, err)
	tx, err := db.BeginTx(new(Txn).Context(t.Context()), nil)
	must(t, err)
	_, err = tx.Stmt(stmt).Exec()
	must(t, err)
	if _, err := tx.Stmt(commit).Exec(); !errors.Is(err, errControl) {
		t.Errorf("got %v", err)
	}
	var refused *RefusedError
	if _, err := tx.Stmt(stmt).Exec(); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	must(t, tx.Rollback())
	_, err = stmt.Exec()
	must(t, err)
}
