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
	want := `once: COMMIT refused, because earlier in this transaction ` +
		`statement "INSERT INTO t (a, b) VALUES (?, 'été', xxxxxxxxxxxxxxxxxxxxx..." failed: the driver says no. ` +
		`Try: return that first error, or run a statement that may fail under a SAVEPOINT of its own and ROLLBACK TO it`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for err, want := range map[error]string{
		&StatementError{Err: errDriver}:             "an argument of a statement was rejected: the driver says no",
		&CommitError{Err: errDriver}:                "once: COMMIT failed, nothing was applied: the driver says no",
		&CommitError{Err: errDriver, InDoubt: true}: "once: outcome of COMMIT unknown: the driver says no. Try: ask again with the same key; the database knows",
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
