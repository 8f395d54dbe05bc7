package sqlguard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// serverError has the shape of the driver's errors.
type serverError struct {
	Number   uint16
	SQLState [5]byte
	Message  string
}

func (e *serverError) Error() string { return e.Message }

func errorNo(n uint16) error { return &serverError{Number: n, Message: fmt.Sprint("number ", n)} }

var errNoSavepoint = &serverError{Number: mysqlNoSavepoint, Message: "SAVEPOINT once_begun does not exist"}

func inOne(statements ...string) string {
	return "BEGIN NOT ATOMIC " + strings.Join(statements, "; ") + "; END"
}

func TestMySQLCode(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		0:    errDriver,
		1213: fmt.Errorf("insert: %w", errorNo(1213)),
		1062: errors.Join(errDriver, errorNo(1062)),
	} {
		if code, ok := MySQLCode(err); code != want || ok != (want != 0) {
			t.Errorf("got %d, %v, want %d", code, ok, want)
		}
	}
	if _, ok := MySQLCode(nil); ok {
		t.Error("nil has a number")
	}
	if _, ok := MySQLCode(struct {
		error
		Number int
	}{errDriver, 7}); ok {
		t.Error("an error without a message has a number")
	}
}

// TestWithoutCompounds: MySQL gets the same statements one by one, and is asked once.
func TestWithoutCompounds(t *testing.T) {
	t.Parallel()
	f := newFake()
	begin := inOne("START TRANSACTION", setMark)
	f.failing("exec "+begin, errorNo(mysqlSyntax))
	db := open(t, f, MySQL)
	for i := range 2 {
		tx, err := db.BeginTx(new(Txn).Context(t.Context()), nil)
		must(t, err)
		must(t, tx.Commit())
		calls := []string{"exec START TRANSACTION", "exec COMMIT"}
		if i == 0 {
			calls = []string{"exec " + begin, "exec START TRANSACTION", "exec " + setMark, "exec COMMIT"}
		} else {
			calls = append([]string{"reset"}, calls...)
		}
		wantCalls(t, f, calls...)
	}
}

// TestBeginFailsHalfWay: what is open is rolled back.
func TestBeginFailsHalfWay(t *testing.T) {
	t.Parallel()
	f := newFake()
	begin := inOne("START TRANSACTION", setMark)
	f.failing("exec "+begin, errorNo(1205))
	txn := new(Txn)
	if _, err := open(t, f, MySQL).BeginTx(txn.Context(t.Context()), nil); err == nil {
		t.Error("begun")
	}
	wantCalls(t, f, "exec "+begin, "exec ROLLBACK")
	if txn.phase.Load() != unused {
		t.Error("the Txn is used up")
	}
}

func TestAdoptAndLast(t *testing.T) {
	t.Parallel()
	f := newFake()
	txn := new(Txn)
	tx, err := open(t, f, MySQL).BeginTx(txn.Adopt(t.Context()), nil)
	must(t, err)
	wantCalls(t, f)
	_, err = tx.Exec("INSERT t")
	must(t, err)
	txn.Last("UPDATE once")
	must(t, tx.Commit())
	wantCalls(t, f, "exec INSERT t", "exec "+inOne(releaseMark, "UPDATE once", "COMMIT"))
}

// TestRollbackTooLate: MySQL itself calls a ROLLBACK without a transaction a success.
func TestRollbackTooLate(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.failing("exec "+inOne(undoing, "ROLLBACK TO "+setMark, "ROLLBACK"), errNoSavepoint)
	tx, _ := begun(t, f, MySQL)
	if err := tx.Rollback(); !errors.Is(err, ErrEnded) {
		t.Errorf("Rollback() = %v", err)
	}
	wantCalls(t, f, "exec "+inOne(undoing, "ROLLBACK TO "+setMark, "ROLLBACK"), "exec ROLLBACK", "query SHOW WARNINGS", "rows close")

	for code, expected := range map[uint16]bool{1213: true, 1062: false} { // a deadlock has rolled back, a duplicate has not
		f = newFake()
		f.failing("exec "+inOne(undoing, "ROLLBACK TO "+setMark, "ROLLBACK"), errNoSavepoint)
		tx, _ = begun(t, f, MySQL)
		f.failing("exec UPDATE t", errorNo(code))
		_, _ = tx.Exec("UPDATE t")
		if err := tx.Rollback(); errors.Is(err, ErrEnded) == expected {
			t.Errorf("after %d: Rollback() = %v", code, err)
		}
		calls := []string{"exec UPDATE t", "exec " + inOne(undoing, "ROLLBACK TO "+setMark, "ROLLBACK"), "exec ROLLBACK", "query SHOW WARNINGS", "rows close"}
		if expected { // it is asked whether that was all
			calls = slices.Insert(calls, 1, "query SHOW WARNINGS", "rows close")
		}
		wantCalls(t, f, calls...)
	}
}
