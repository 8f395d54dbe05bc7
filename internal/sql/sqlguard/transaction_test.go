package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestBeginInEachDialect(t *testing.T) {
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
		{MySQL, nil, "exec START TRANSACTION"},
		{MySQL, readOnly, "exec START TRANSACTION READ ONLY"},
		{MySQL, level(sql.LevelReadCommitted), "exec SET TRANSACTION ISOLATION LEVEL READ COMMITTED | exec START TRANSACTION"},
		{MySQL, level(sql.LevelSerializable), "exec SET TRANSACTION ISOLATION LEVEL SERIALIZABLE | exec START TRANSACTION"},
	} {
		f := newFake()
		txn := new(Txn)
		tx, err := open(t, f, tt.d).BeginTx(txn.Context(t.Context()), tt.opts)
		must(t, err)
		wantCalls(t, f, strings.Split(tt.want, " | ")...)
		if tt.opts != nil && tt.want == "begin" {
			if got := (driver.TxOptions{Isolation: driver.IsolationLevel(tt.opts.Isolation), ReadOnly: tt.opts.ReadOnly}); f.opts != got {
				t.Errorf("%s: the driver was given %v, want %v", tt.d, f.opts, got)
			}
		}
		must(t, tx.Rollback())
	}
	for _, d := range []Dialect{PostgreSQL, MySQL} {
		f := newFake()
		txn := new(Txn)
		if _, err := open(t, f, d).BeginTx(txn.Context(t.Context()), level(sql.LevelLinearizable)); err == nil {
			t.Errorf("%s is not linearizable", d)
		}
		wantCalls(t, f)
	}
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
// the connection may belong to another goroutine by now.
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

// TestNestedTransactionIsRefused: two transactions on one connection would share one fate.
func TestNestedTransactionIsRefused(t *testing.T) {
	t.Parallel()
	f := newFake()
	c, err := open(t, f, PostgreSQL).Conn(t.Context())
	must(t, err)
	defer c.Close()
	txn := new(Txn)
	for name, contexts := range map[string][2]context.Context{
		"guarded in unguarded": {t.Context(), txn.Context(t.Context())},
		"unguarded in guarded": {new(Txn).Context(t.Context()), t.Context()},
		"guarded in guarded":   {new(Txn).Context(t.Context()), txn.Context(t.Context())},
	} {
		outer, err := c.BeginTx(contexts[0], nil)
		must(t, err)
		f.took()
		if _, err := c.BeginTx(contexts[1], nil); !errors.Is(err, errNested) {
			t.Errorf("%s: %v", name, err)
		}
		wantCalls(t, f)
		must(t, outer.Rollback())
	}
	inner, err := c.BeginTx(txn.Context(t.Context()), nil) // it is still unused
	must(t, err)
	must(t, inner.Commit())
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

// TestForgottenTransaction: one that its owner left open, on a connection that
// has been handed on, ends late and must not take the guard away from its
// successor.
func TestForgottenTransaction(t *testing.T) {
	t.Parallel()
	f := newFake()
	base, err := Wrap(f, SQLite).Connect(t.Context())
	must(t, err)
	c := base.(*conn)
	forgotten, err := c.BeginTx(t.Context(), driver.TxOptions{})
	must(t, err)
	must(t, c.ResetSession(t.Context()))
	if _, err := c.ExecContext(new(Txn).Context(t.Context()), "SELECT 1", nil); !errors.Is(err, errOutside) {
		t.Errorf("joined a forgotten transaction: %v", err)
	}
	txn := new(Txn)
	tx, err := c.BeginTx(txn.Context(t.Context()), driver.TxOptions{})
	must(t, err)
	must(t, forgotten.Rollback())
	f.failing("exec UPDATE t", errDriver)
	_, _ = c.ExecContext(t.Context(), "UPDATE t", nil)
	if txn.Err() == nil || tx.Commit() == nil {
		t.Error("the successor is not guarded")
	}
}
