package sqlguard

import "testing"

func TestEnds(t *testing.T) {
	for text, want := range map[string]bool{
		"commit": true, "COMMIT AND CHAIN": true, "commit; begin": true, "select 1; end; begin": true, "/* a */ abort -- b": true,
		"rollback": true, "rollback and chain": true, "start transaction": true, "prepare transaction 'x'": true, "select ';'; commit prepared 'x'": true,
		"": false, ";": false, "select 'commit; begin'": false, "select $$;commit;$$": false, "savepoint a": false, "savepoint a; select 1; release a": false,
		"rollback to a": false, "rollback to savepoint a; select 1": false, "prepare x as select 1": false, "insert into t values ($1)": false,
		"create function f() returns int begin atomic select 1; end": false, "create function f() returns int begin atomic select 1; end; commit": true,
		`do $$ begin perform 1; end $$`: false, "-- commit\nselect 1": false, "execute commit": false,
	} {
		if got := PostgreSQL.Ends(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if !MySQL.Ends("create table t (id int)") {
		t.Error("what MySQL commits before it runs it")
	}
}
