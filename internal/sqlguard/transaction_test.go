package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestBegin(t *testing.T) {
	t.Parallel()
	level := func(l sql.IsolationLevel) *sql.TxOptions { return &sql.TxOptions{Isolation: l} }
	readOnly := &sql.TxOptions{ReadOnly: true}
	for _, tt := range []struct {
		d    Dialect
		opts *sql.TxOptions
		want string
	}{
		{SQLite, nil, "exec BEGIN IMMEDIATE"},
		{SQLite, level(sql.LevelSerializable), "exec BEGIN IMMEDIATE"},
		{SQLite, readOnly, "begin"},
		{PostgreSQL, nil, "exec BEGIN"},
		{PostgreSQL, readOnly, "exec BEGIN READ ONLY"},
		{PostgreSQL, level(sql.LevelReadUncommitted), "exec BEGIN ISOLATION LEVEL READ UNCOMMITTED"},
		{PostgreSQL, level(sql.LevelReadCommitted), "exec BEGIN ISOLATION LEVEL READ COMMITTED"},
		{PostgreSQL, level(sql.LevelRepeatableRead), "exec BEGIN ISOLATION LEVEL REPEATABLE READ"},
		{PostgreSQL, level(sql.LevelSnapshot), "exec BEGIN ISOLATION LEVEL REPEATABLE READ"},
		{PostgreSQL, level(sql.LevelSerializable), "exec BEGIN ISOLATION LEVEL SERIALIZABLE"},
		{MySQL, level(sql.LevelSerializable), "begin"},
	} {
		f := newFake()
		txn := new(Txn)
		tx, err := open(t, f, tt.d).BeginTx(txn.Context(t.Context()), tt.opts)
		must(t, err)
		wantCalls(t, f, tt.want)
		if tt.opts != nil && tt.want == "begin" {
			if got := (driver.TxOptions{Isolation: driver.IsolationLevel(tt.opts.Isolation), ReadOnly: tt.opts.ReadOnly}); f.opts != got {
				t.Errorf("%s: the driver was given %v, want %v", tt.d, f.opts, got)
			}
		}
		must(t, tx.Rollback())
	}
	f := newFake()
	txn := new(Txn)
	if _, err := open(t, f, PostgreSQL).BeginTx(txn.Context(t.Context()), level(sql.LevelLinearizable)); err == nil {
		t.Error("PostgreSQL is not linearizable")
	}
	wantCalls(t, f)
}

// TestBeginThatMayHaveBeenHeard: an error that is not the database's own may
// hide an open transaction.
func TestBeginThatMayHaveBeenHeard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		d        Dialect
		err      error
		rollback error
		calls    []string
		keeps    bool
	}{
		{"busy", SQLite, resultCode(sqliteBusy), nil, []string{"exec BEGIN IMMEDIATE"}, true},
		{"deadline", SQLite, context.DeadlineExceeded, nil, []string{"exec BEGIN IMMEDIATE", "exec ROLLBACK"}, true},
		{"deadline, was not begun", SQLite, context.DeadlineExceeded, resultCode(sqliteError), []string{"exec BEGIN IMMEDIATE", "exec ROLLBACK"}, true},
		{"answer", PostgreSQL, coded("53200"), nil, []string{"exec BEGIN"}, true},
		{"line broken", PostgreSQL, io.ErrUnexpectedEOF, driver.ErrBadConn, []string{"exec BEGIN", "exec ROLLBACK", "close"}, false},
	} {
		t.Run(tt.d.String()+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			db := open(t, f, tt.d)
			f.failing(tt.calls[0], tt.err)
			f.failing("exec ROLLBACK", tt.rollback)
			txn := new(Txn)
			if _, err := db.BeginTx(txn.Context(t.Context()), nil); !errors.Is(err, tt.err) {
				t.Fatalf("got %v", err)
			}
			wantCalls(t, f, tt.calls...)
			f.failing(tt.calls[0], nil)
			tx, err := db.BeginTx(txn.Context(t.Context()), nil) // the Txn is still unused
			must(t, err)
			must(t, tx.Commit())
			if kept := f.opens == 1; kept != tt.keeps {
				t.Errorf("%d connections", f.opens)
			}
		})
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		d    Dialect
		want string
	}{
		{SQLite, "exec COMMIT"},
		{PostgreSQL, "exec SAVEPOINT once_commit; COMMIT"},
		{MySQL, "commit"},
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
			if tt.d == MySQL {
				commit, rollback = "commit", "rollback"
			}
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
// by itself, which is fine; without one somebody else ended the transaction.
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

// TestTailIgnoresTheCaller: COMMIT and ROLLBACK do not listen to a context that
// ends meanwhile, but to a bound of their own.
func TestTailIgnoresTheCaller(t *testing.T) {
	t.Parallel()
	type key struct{}
	for _, d := range []Dialect{PostgreSQL, SQLite} {
		f := newFake()
		db := open(t, f, d)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		tx, err := db.BeginTx(new(Txn).Context(ctx), nil)
		must(t, err)
		must(t, tx.Commit())
		commit := f.ctx("exec " + d.commits())
		cancel()
		deadline, bounded := commit.Deadline()
		if bounded != (d == PostgreSQL) || bounded && time.Until(deadline) > tailBound {
			t.Errorf("%s: deadline of COMMIT: %v", d, deadline)
		}
		if commit.Value(key{}) != "kept" {
			t.Errorf("%s: COMMIT lost the values of the caller's context", d)
		}
		if d == SQLite && commit.Done() != nil {
			t.Errorf("%s: COMMIT can be cut short", d)
		}

		ctx, cancel = context.WithCancel(t.Context())
		f.took()
		tx, err = db.BeginTx(new(Txn).Context(ctx), nil)
		must(t, err)
		cancel()
		if err := tx.Commit(); !errors.Is(err, context.Canceled) && !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("%s: Commit() = %v", d, err)
		}
		_, err = db.Exec("SELECT 1") // waits for the connection
		must(t, err)
		if calls := strings.Join(f.took(), " "); !strings.Contains(calls, "exec ROLLBACK") || strings.Contains(calls, "COMMIT") {
			t.Errorf("%s: cancelled: %s", d, calls)
		}
	}
}

// TestEndIsFinal drives the driver's transaction directly, as a pool that hands
// out logical connections may: a second end must not reach the database, where
// the connection may belong to somebody else by now.
func TestEndIsFinal(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{PostgreSQL, MySQL, SQLite} {
		for _, ctx := range []context.Context{t.Context(), new(Txn).Context(t.Context())} {
			f := newFake()
			c, err := Wrap(f, d).Connect(ctx)
			must(t, err)
			tx, err := c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
			must(t, err)
			must(t, tx.Commit())
			next, err := c.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{})
			must(t, err)
			f.took()
			if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("second Commit() = %v", err)
			}
			if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("Rollback() after Commit() = %v", err)
			}
			wantCalls(t, f)
			must(t, next.Rollback())
		}
	}
}

// TestGuardedTransactionLeftOpen: the pool must not hand the connection on.
func TestGuardedTransactionLeftOpen(t *testing.T) {
	t.Parallel()
	f := newFake()
	c, err := Wrap(f, SQLite).Connect(t.Context())
	must(t, err)
	tx, err := c.(driver.ConnBeginTx).BeginTx(new(Txn).Context(t.Context()), driver.TxOptions{})
	must(t, err)
	if c.(driver.Validator).IsValid() {
		t.Error("valid with a guarded transaction open")
	}
	if err := c.(driver.SessionResetter).ResetSession(t.Context()); !errors.Is(err, driver.ErrBadConn) {
		t.Errorf("ResetSession() = %v", err)
	}
	must(t, tx.Rollback())
	if !c.(driver.Validator).IsValid() {
		t.Error("invalid without a transaction")
	}
}
