package sqlguard

import (
	"errors"
	"strings"
	"testing"
)

func TestMessagesOfErrors(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, _ := begun(t, f, SQLite)
	query := "INSERT INTO\n\t  t (a, b)\nVALUES (?, 'été', " + strings.Repeat("x", 600) + ")"
	f.failing("exec "+query, errDriver)
	_, _ = tx.Exec(query)
	got := tx.Commit().Error()
	want := `once: COMMIT was not sent, because an earlier statement of the transaction has failed: ` +
		`statement "INSERT INTO t (a, b) VALUES (?, 'été', xxxxxxxxxxxxxxxxxxxxx..." failed: the driver says no. ` +
		`Try: return the error of this first statement, or use a SAVEPOINT and ROLLBACK TO for a statement that may fail`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for err, want := range map[error]string{
		&StatementError{Err: errDriver}:             "the driver has rejected an argument of a statement: the driver says no",
		&CommitError{Err: errDriver}:                "once: COMMIT has failed, and nothing was applied: the driver says no",
		&CommitError{Err: errDriver, InDoubt: true}: "once: the outcome of COMMIT is unknown: the driver says no. Try: call again with the same key, which finds out the outcome",
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

// TestErrorsAreNotChanged: what the driver says reaches the caller as it is.
func TestErrorsAreNotChanged(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, _ := begun(t, f, PostgreSQL)
	f.failing("exec UPDATE t", errDriver)
	if _, err := tx.Exec("UPDATE t"); err != errDriver { //nolint:errorlint // identity is the point
		t.Errorf("got %v", err)
	}
	must(t, tx.Rollback())
	wantCalls(t, f, "exec UPDATE t", "exec ROLLBACK")
}

func TestImplicitCommitIsRefused(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, MySQL)
	if _, err := tx.Exec("CREATE TABLE t (n int)"); !errors.Is(err, errImplicit) {
		t.Errorf("got %v", err)
	}
	if txn.Err() == nil {
		t.Error("not poisoned")
	}
	wantCalls(t, f)
	if err := tx.Commit(); !errors.Is(err, errImplicit) {
		t.Errorf("Commit() = %v", err)
	}
	wantCalls(t, f, "exec ROLLBACK", "query SHOW WARNINGS", "rows close")
}
