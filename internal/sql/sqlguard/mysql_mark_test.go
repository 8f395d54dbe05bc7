package sqlguard

import (
	"context"
	"errors"
	"testing"
)

// begunOnMySQL begins a transaction, whose calls so far are forgotten. Before the mark it runs "INSERT claim", after the end it does "f()".
func begunOnMySQL(t *testing.T) (*fake, *Txn, func(query string) error, func() error, func() error) {
	t.Helper()
	f := newFake()
	db := open(t, f, MySQL)
	txn := new(Txn)
	txn.BeforeMark(func(ctx context.Context, s Session) error { return s.Run(ctx, "INSERT claim") })
	txn.DoAfter("f()")
	tx, err := db.BeginTx(txn.Context(t.Context()), nil)
	must(t, err)
	f.calls = nil
	run := func(query string) error { _, err := tx.Exec(query); return err }
	return f, txn, run, tx.Commit, tx.Rollback
}

// TestMarkIsSetWhenNeeded: before the first statement that may end the transaction, and once.
func TestMarkIsSetWhenNeeded(t *testing.T) {
	t.Parallel()
	f, txn, run, commit, _ := begunOnMySQL(t)
	must(t, run("INSERT t"))
	must(t, run("CALL p()"))
	must(t, run("CALL q()"))
	if !txn.WroteBeforeMark() {
		t.Error("the statement before the mark counts as not run")
	}
	must(t, commit())
	wantCalls(t, f, "exec INSERT t", "exec INSERT claim", "exec "+setMark, "exec CALL p()", "exec CALL q()",
		"exec "+releaseMark, "exec COMMIT", "exec DO f()")

	f, _, run, commit, _ = begunOnMySQL(t)
	must(t, run("INSERT t"))
	must(t, commit())
	wantCalls(t, f, "exec INSERT t", "exec COMMIT", "exec DO f()")
}

// TestMarkGoesWithOlderSavepoints: that one could be released or rolled back to proves that the
// transaction goes on. What was written before the mark is undone by the latter only.
func TestMarkGoesWithOlderSavepoints(t *testing.T) {
	t.Parallel()
	for end, undone := range map[string]bool{"ROLLBACK TO mine": true, "RELEASE SAVEPOINT mine": false} {
		f, txn, run, commit, _ := begunOnMySQL(t)
		must(t, run("SAVEPOINT mine"))
		must(t, run("CALL p()"))
		must(t, run("SAVEPOINT younger"))
		must(t, run("ROLLBACK TO younger"))
		if !txn.WroteBeforeMark() {
			t.Error("undone by a rollback to a younger savepoint")
		}
		must(t, run(end))
		if txn.WroteBeforeMark() == undone {
			t.Errorf("after %s: %t", end, txn.WroteBeforeMark())
		}
		must(t, run("CALL q()"))
		must(t, commit())
		calls := []string{"exec SAVEPOINT mine", "exec INSERT claim", "exec " + setMark, "exec CALL p()", "exec SAVEPOINT younger", "exec ROLLBACK TO younger", "exec " + end}
		if undone {
			calls = append(calls, "exec INSERT claim")
		}
		wantCalls(t, f, append(calls, "exec "+setMark, "exec CALL q()", "exec "+releaseMark, "exec COMMIT", "exec DO f()")...)
	}
}

// TestMarkIsGone: the procedure has ended the transaction, which COMMIT and ROLLBACK find out.
func TestMarkIsGone(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		f, _, run, commit, rollback := begunOnMySQL(t)
		f.failing("exec "+releaseMark, errNoSavepoint)
		must(t, run("CALL p()"))
		end := rollback
		if commits {
			end = commit
		}
		if err := end(); !errors.Is(err, ErrEnded) {
			t.Errorf("commits %t: %v", commits, err)
		}
	}
}

// TestMarkCannotBeSet: the statement is not run, and the transaction does not commit.
func TestMarkCannotBeSet(t *testing.T) {
	t.Parallel()
	f, _, run, commit, _ := begunOnMySQL(t)
	f.failing("exec INSERT claim", errorNo(1062))
	if err := run("CALL p()"); err == nil {
		t.Error("run")
	}
	if err := commit(); !errors.As(err, new(*RefusedError)) {
		t.Error(err)
	}
}

// TestIsPlain: only what is certain to be one statement that ends no transaction.
func TestIsPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"select 1":                           true,
		"\n\tInsert into t values (1)":       true,
		"update t set a = 1":                 true,
		"with a as (select 1) select * from": true,
		"rollback to savepoint a":            true,
		"set @a = 1":                         true,
		"call p()":                           false,
		"execute s":                          false,
		"/*! select */ commit":               false,
		"-- x\nselect 1":                     false,
		"select 1; call p()":                 false,
		`select '\'; call p(); -- '`:         false, // what it is depends on NO_BACKSLASH_ESCAPES
		"selects":                            false,
		"(select 1)":                         false,
		"handler t open":                     false,
		"":                                   false,
	} {
		if got := isPlain(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
