package sqlguard

import (
	"errors"
	"strings"
	"testing"
)

// TestChangesSession: what stays in a session of MySQL when a transaction is over.
func TestChangesSession(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"set sql_mode = ''":                                          true,
		"SET @@session.time_zone = '+01:00'":                         true,
		"set @a = 1, @@sql_mode = ''":                                true,
		"set @a = concat('x', 'y'), tx_isolation = 'SERIALIZABLE'":   true,
		"set session transaction isolation level read uncommitted":   true,
		"set names latin1":                                           true,
		"set role none":                                              true,
		"/*!40101 SET foreign_key_checks = 0 */":                     true,
		"select 1; use other":                                        true,
		"select GET_LOCK('a', 1)":                                    true,
		"create temporary table t (n int)":                           true,
		"create or replace temporary table t (n int)":                true,
		"execute immediate 'set sql_mode = 0'":                       true,
		"handler t open":                                             true,
		"set statement max_statement_time = 1 for set sql_mode = ''": true,
		"set @a = 1": false,
		"set @a := (select max(id) from t where n in (1, 2)), @b = 'x,y'": false,
		"set statement max_statement_time = 1 for select 1":               false,
		"insert into t values ('set sql_mode', 'use x')":                  false,
		"update t set a = 1":    false,
		"select 1 -- use other": false,
		"call p()":              false,
		"":                      false,
		";":                     false,
	} {
		if got := changesSession(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestRunsTexts: procedures and dynamic SQL, which may commit.
func TestRunsTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"call p()":                   true,
		"select 1; CALL p(@a)":       true,
		"execute immediate 'commit'": true,
		"set statement max_statement_time = 1 for call p()": true,
		"/*! call p() */":                     true,
		"insert into t values ('; call p()')": false,
		"set @call = 1":                       false,
		"select f()":                          false,
		"":                                    false,
	} {
		if got := runsTexts(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestReleasesAllLocks: what is a call, and what only mentions one.
func TestReleasesAllLocks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"select release_all_locks()":                        true,
		"do RELEASE_ALL_LOCKS /* all */ ( )":                true,
		"do `release_all_locks`()":                          true,
		"select 1; set @n = 1 + /*!Release_All_Locks( */ )": true,
		"insert into t values ('release_all_locks()')":      false,
		"select 1 -- release_all_locks()":                   false,
		"select release_all_locks from t":                   false,
		"select (release_all_locks)":                        false,
		"do release_lock('mine')":                           false,
		"release_all_locks":                                 false,
		"":                                                  false,
	} {
		if got := releasesAllLocks(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestAllLocksAreRefused where once holds one of them.
func TestAllLocksAreRefused(t *testing.T) {
	t.Parallel()
	const all = "DO RELEASE_ALL_LOCKS()"
	f, _, run, commit, _ := begunOnMySQL(t)
	err := run(all)
	if !errors.Is(err, errAllLocks) || !strings.HasSuffix(err.Error(), "Try: RELEASE_LOCK with the name of your own lock") {
		t.Error(err)
	}
	if err := commit(); !errors.As(err, new(*RefusedError)) {
		t.Error(err)
	}
	wantCalls(t, f, "exec ROLLBACK", "query SHOW WARNINGS", "rows close", "exec DO f()")

	f, txn, run, commit, _ := begunOnMySQL(t)
	txn.DoAfter("g()")
	txn.DoNotAfter("g()")
	txn.DoNotAfter("f()")
	must(t, run(all))
	must(t, commit())
	wantCalls(t, f, "exec "+all, "exec COMMIT")
}

// TestOwnLocksLeaveTheSession: a lock that once takes itself, and releases, does not cost the connection.
func TestOwnLocksLeaveTheSession(t *testing.T) {
	t.Parallel()
	for own, want := range map[bool]bool{true: false, false: true} {
		c, txn, ctx := &conn{dialect: MySQL}, new(Txn), t.Context()
		txn.ForbidCommit()
		if own {
			ctx = LeavesSession(ctx)
		}
		c.noteSession(ctx, txn, "select get_lock('a', 0)")
		if c.broken != want {
			t.Errorf("own %t: the connection ends: %t", own, c.broken)
		}
	}
}
