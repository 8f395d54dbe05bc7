package sqlguard

import (
	"errors"
	"fmt"
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

// TestBeginFails: what may be open is rolled back.
func TestBeginFails(t *testing.T) {
	t.Parallel()
	f := newFake()
	const begin = "START TRANSACTION"
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

// TestRollbackTooLate: MySQL itself calls a ROLLBACK without a transaction a success.
func TestRollbackTooLate(t *testing.T) {
	t.Parallel()
	asks := []string{"query SHOW WARNINGS", "rows close"}
	again := append([]string{"exec " + releaseMark, "exec ROLLBACK"}, asks...)
	for code, expected := range map[uint16]bool{0: false, 1213: true, 1062: false} { // a deadlock has rolled back, a duplicate has not
		f := newFake()
		f.failing("exec "+releaseMark, errNoSavepoint)
		tx, _ := begun(t, f, MySQL)
		_, err := tx.Exec("CALL p()")
		must(t, err)
		calls := []string{"exec " + setMark, "exec CALL p()"}
		if code != 0 {
			f.failing("exec UPDATE t", errorNo(code))
			_, _ = tx.Exec("UPDATE t")
			calls = append(calls, "exec UPDATE t")
		}
		if err := tx.Rollback(); errors.Is(err, ErrEnded) == expected {
			t.Errorf("after %d: Rollback() = %v", code, err)
		}
		if expected { // it is asked whether that was all
			calls = append(calls, asks...)
		}
		wantCalls(t, f, append(calls, again...)...)
	}
}
