package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"testing"
)

func TestCommitInEachDialect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		d    Dialect
		want string
	}{
		{SQLite, "exec COMMIT"},
		{PostgreSQL, "exec SAVEPOINT once_commit; COMMIT"},
		{MySQL, "exec COMMIT"},
	} {
		f := newFake()
		tx, _ := begun(t, f, tt.d)
		_, err := tx.Exec("UPDATE t")
		must(t, err)
		must(t, tx.Commit())
		wantCalls(t, f, "exec UPDATE t", tt.want)
	}
}

func TestCommitThatFails(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	for _, tt := range []struct {
		name    string
		d       Dialect
		err     error
		inDoubt bool
		keeps   bool // the connection
	}{
		{"serialization failure", PostgreSQL, coded("40001"), false, true},
		{"deferred constraint", PostgreSQL, coded("23503"), false, true},
		{"disk full", PostgreSQL, coded("53100"), false, true},
		{"aborted", PostgreSQL, coded("25P02"), false, true},
		{"no transaction", PostgreSQL, coded("25P01"), true, true},
		{"terminated", PostgreSQL, coded("57P01"), true, false},
		{"connection failure", PostgreSQL, coded("08006"), true, false},
		{"completion unknown", PostgreSQL, coded("40003"), true, false},
		{"last words of any kind", PostgreSQL, &fatal{coded: "XX000", Severity: "FATAL"}, true, false},
		{"panic in another language", PostgreSQL, &fatal{coded: "XX000", SeverityUnlocalized: "PANIC", Severity: "PANIK"}, true, false},
		{"an ordinary error", PostgreSQL, &fatal{coded: "23505", Severity: "ERROR"}, false, true},
		{"connection reset", PostgreSQL, reset, true, false},
		{"end of file", PostgreSQL, io.ErrUnexpectedEOF, true, false},
		{"bad connection", PostgreSQL, driver.ErrBadConn, true, false},
		{"deadline", PostgreSQL, context.DeadlineExceeded, true, false},
		{"full", SQLite, resultCode(sqliteFull), false, true},
		{"busy", SQLite, resultCode(sqliteBusy | 2<<8), false, true},
		{"constraint", SQLite, resultCode(sqliteConstraint | 3<<8), false, true},
		{"fsync", SQLite, resultCode(10 | 4<<8), true, false},
		{"no memory", SQLite, resultCode(7), true, false},
		{"corrupt", SQLite, resultCode(11), true, false},
		{"no transaction", SQLite, resultCode(sqliteError), true, true},
		{"unknown", SQLite, errDriver, true, false},
		{"deadlock", MySQL, errorNo(1213), false, true},
		{"read-only server", MySQL, errorNo(1290), false, true},
		{"error during commit", MySQL, errorNo(1180), true, false},
		{"shutdown", MySQL, errorNo(1053), true, false},
		{"refused by a group", MySQL, errorNo(3101), true, false},
		{"interrupted", MySQL, errorNo(1317), true, false},
		{"bad connection", MySQL, driver.ErrBadConn, true, false},
		{"anything", MySQL, errDriver, true, false},
	} {
		t.Run(tt.d.String()+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			db := open(t, f, tt.d)
			tx, err := db.BeginTx(new(Txn).Context(t.Context()), nil)
			must(t, err)
			f.took()
			commit, rollback := "exec "+tt.d.commits(), "exec ROLLBACK"
			f.failing(commit, tt.err)
			err = tx.Commit()
			var failed *CommitError
			if !errors.As(err, &failed) || !errors.Is(err, tt.err) {
				t.Fatalf("got %v", err)
			}
			if failed.InDoubt != tt.inDoubt {
				t.Errorf("in doubt: %v", failed.InDoubt)
			}
			if ended := tt.name == "no transaction"; errors.Is(err, ErrEnded) != ended {
				t.Errorf("ended underneath: %v", !ended)
			}
			calls := []string{commit, rollback}
			asks := []string{"query SHOW WARNINGS", "rows close"} // whether that was all
			if tt.name == "deadlock" {
				calls = append([]string{commit}, append(asks, rollback)...)
			}
			if tt.d == MySQL {
				calls = append(calls, asks...)
			}
			if !tt.keeps {
				calls = append(calls, "close")
			}
			wantCalls(t, f, calls...)
			_, err = db.Exec("SELECT 1")
			must(t, err)
		})
	}
}

type fatal struct {
	coded

	Severity, SeverityUnlocalized string
}

// TestRollbackThatFails: the connection must not go back to the pool.
func TestRollbackThatFails(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *fake, tx *sql.Tx) error{
		"Rollback": func(_ *fake, tx *sql.Tx) error { return tx.Rollback() },
		"refused COMMIT": func(f *fake, tx *sql.Tx) error {
			f.failing("exec UPDATE t", errDriver)
			_, _ = tx.Exec("UPDATE t")
			return tx.Commit()
		},
		"failed COMMIT": func(f *fake, tx *sql.Tx) error {
			f.failing("exec COMMIT", resultCode(sqliteFull))
			return tx.Commit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			tx, _ := begun(t, f, SQLite)
			f.failing("exec ROLLBACK", resultCode(10))
			if end(f, tx) == nil {
				t.Fatal("no error")
			}
			if calls := f.took(); calls[len(calls)-1] != "close" {
				t.Errorf("the connection was kept: %v", calls)
			}
		})
	}
}

// TestRollbackFindsNothing: after a failed statement SQLite may have rolled back
// by itself, which is fine; without one another session ended the transaction.
func TestRollbackFindsNothing(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.failing("exec ROLLBACK", resultCode(sqliteError))
	tx, _ := begun(t, f, SQLite)
	f.failing("exec UPDATE t", resultCode(sqliteFull))
	_, _ = tx.Exec("UPDATE t")
	must(t, tx.Rollback())

	tx, _ = begun(t, f, SQLite)
	if err := tx.Rollback(); !errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
}
