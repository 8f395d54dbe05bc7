package sqlguard

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/txlimit"
)

// TestLimitDecides: from the moment at which the guard has decided that a transaction has
// been idle for too long, and before it is rolled back, nothing of it reaches the driver but
// that ROLLBACK, which is sent once.
func TestLimitDecides(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(tx *sql.Tx) error{
		"exec":     func(tx *sql.Tx) error { _, err := tx.Exec("UPDATE t"); return err },
		"query":    func(tx *sql.Tx) error { return tx.QueryRow("SELECT 1").Scan(new(int)) },
		"prepare":  func(tx *sql.Tx) error { _, err := tx.Prepare("UPDATE t"); return err },
		"heal":     func(tx *sql.Tx) error { _, err := tx.Exec("ROLLBACK TO before"); return err },
		"commit":   func(tx *sql.Tx) error { return tx.Commit() },
		"rollback": func(tx *sql.Tx) error { return errors.Join(tx.Rollback(), &txlimit.TimeoutError{Limit: "idle"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			tx, txn := begun(t, f, SQLite)
			_, err := tx.Exec("SAVEPOINT before")
			must(t, err)
			decided, goOn := make(chan struct{}), make(chan struct{})
			txn.Limit(txlimit.Limits{Idle: 1}, func() {
				close(decided)
				<-goOn
				_ = tx.Rollback()
			})
			txn.ForbidCommit()
			<-decided
			f.took()
			if name == "commit" {
				txn.AllowCommit()
			}
			var timeout *txlimit.TimeoutError
			if err := then(tx); !errors.As(err, &timeout) || timeout.SQLState() != "25P03" || timeout.Whole() {
				t.Errorf("after it was decided: %v", err)
			}
			close(goOn)
			if err := txn.Lift(); !errors.As(err, &timeout) {
				t.Errorf("Lift() = %v", err)
			}
			select {
			case <-txn.Ended():
			default:
				t.Error("Lift has not waited")
			}
			wantCalls(t, f, "exec ROLLBACK")
		})
	}
}

// TestLimitIsLifted: a transaction whose COMMIT has begun, or which no handler has, is not ended.
func TestLimitIsLifted(t *testing.T) {
	t.Parallel()
	f := newFake()
	for _, lift := range []bool{false, true} {
		tx, txn := begun(t, f, SQLite)
		txn.Limit(txlimit.Limits{Idle: 1}, func() { t.Error("ended") })
		if lift {
			must(t, txn.Lift())
			txn.ForbidCommit()
			txn.AllowCommit()
		}
		must(t, tx.Commit())
		must(t, txn.Lift())
		wantCalls(t, f, "exec COMMIT")
	}
}

// TestLimitWhole: all of its time is over, whether a handler has it or not.
func TestLimitWhole(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, SQLite)
	decided := make(chan struct{})
	txn.Limit(txlimit.Limits{Whole: time.Millisecond}, func() {
		_ = tx.Rollback()
		close(decided)
	})
	<-decided
	var timeout *txlimit.TimeoutError
	if err := txn.Lift(); !errors.As(err, &timeout) || !timeout.Whole() {
		t.Errorf("Lift() = %v", err)
	}
	wantCalls(t, f, "exec ROLLBACK")
}
