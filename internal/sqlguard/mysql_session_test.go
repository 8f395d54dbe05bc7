package sqlguard

import "testing"

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
