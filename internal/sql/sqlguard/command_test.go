package sqlguard

// The tests with databases are in integration/sqlguard: "make test-of DIR=internal/sql/sqlguard" runs them after these.

import (
	"strings"
	"testing"
)

func TestParseFindsTransactionControl(t *testing.T) {
	t.Parallel()
	all := []Dialect{PostgreSQL, MySQL, SQLite}
	pg, my, lite := []Dialect{PostgreSQL}, []Dialect{MySQL}, []Dialect{SQLite}
	plain, ends, implicit := command{}, command{verb: transactionControl}, command{verb: implicitCommit}

	tests := []struct {
		dialects []Dialect
		text     string
		want     command
	}{
		{all, "", plain},
		{all, " ; ;; ", plain},
		{all, "SELECT 1", plain},
		{all, "select 1;", plain},
		{all, "(SELECT 1) UNION (SELECT 2)", plain},
		{all, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", plain},
		{all, "SELECT 'COMMIT; COMMIT'", plain},
		{all, "SELECT 'it''s; COMMIT'", plain},
		{all, `SELECT "a;COMMIT" FROM t`, plain},
		{all, `SELECT "a"";COMMIT" FROM t`, plain},
		{all, "SELECT 1 -- ; COMMIT", plain},
		{all, "SELECT 1 /* ; COMMIT */", plain},
		{all, "UPDATE commit SET begin = 1", plain},
		{all, "COMMITTED", plain},
		{all, "EXPLAIN SELECT 1", plain},
		{all, "SELECT 'never closed; COMMIT", plain},
		{all, "SELECT 1 /* never closed; COMMIT", plain},

		{all, "COMMIT", ends},
		{all, "commit;", ends},
		{all, "\t\r\n commit work", ends},
		{all, "-- why\ncommit", ends},
		{all, "/* x */ ; commit", ends},
		{all, "BEGIN", ends},
		{all, "BEGIN IMMEDIATE", ends},
		{all, "START TRANSACTION", ends},
		{all, "END", ends},
		{all, "ABORT", ends},
		{all, "ROLLBACK", ends},
		{all, "ROLLBACK WORK", ends},
		{all, "ROLLBACK; SELECT 1", ends},
		{all, "ROLLBACK AND CHAIN", ends},
		{all, "XA END 'x'", ends},
		{all, "SELECT 1; COMMIT", ends},
		{all, "SELECT 'a'; COMMIT; SELECT 'b'", ends},
		{all, "SELECT ''; COMMIT", ends},
		{all, "SELECT /* a */ 1; /* b */ COMMIT", ends},
		{all, "INSERT INTO t VALUES (1); BEGIN", ends},
		{all, "\ufeffCOMMIT", ends},
		{pg, "PREPARE TRANSACTION 'x'", ends},
		{all, "PREPARE; COMMIT", ends},
		{pg, "PREPARE p AS SELECT 1", plain},
		{pg, "COMMIT PREPARED 'x'", ends},

		// Savepoints, and their names.
		{all, "SAVEPOINT a", command{setSavepoint, "a"}},
		{all, "savepoint A;", command{setSavepoint, "a"}},
		{all, `SAVEPOINT "b c"`, command{setSavepoint, "b c"}},
		{all, `SAVEPOINT "b""c"`, command{setSavepoint, `b"c`}},
		{all, "RELEASE SAVEPOINT a", command{releaseSavepoint, "a"}},
		{all, "release a", command{releaseSavepoint, "a"}},
		{all, "RELEASE savepoint", command{releaseSavepoint, "savepoint"}},
		{all, "ROLLBACK TO a", command{rollbackTo, "a"}},
		{all, "rollback /* x */ to savepoint A -- y", command{rollbackTo, "a"}},
		{all, "ROLLBACK WORK TO SAVEPOINT a", command{rollbackTo, "a"}},
		{all, "ROLLBACK TRANSACTION TO a", command{rollbackTo, "a"}},
		{pg, `SAVEPOINT "A"`, command{setSavepoint, "A"}},
		{lite, `SAVEPOINT "A"`, command{setSavepoint, "a"}},
		{lite, "SAVEPOINT 'A'", command{setSavepoint, "a"}},
		{lite, "SAVEPOINT [A b]", command{setSavepoint, "a b"}},
		{[]Dialect{MySQL, SQLite}, "SAVEPOINT `A``b`", command{setSavepoint, "a`b"}},
		{pg, "SAVEPOINT " + strings.Repeat("x", 70), command{setSavepoint, strings.Repeat("x", 63)}},
		{pg, `SAVEPOINT "` + strings.Repeat("x", 62) + `é"`, command{setSavepoint, strings.Repeat("x", 62)}},
		{all, "SAVEPOINT", ends},
		{all, "SAVEPOINT a b", ends},
		{all, `SAVEPOINT "a`, ends},
		{lite, "SAVEPOINT 'a", ends},
		{all, "ROLLBACK TO", ends},
		{pg, `SAVEPOINT U&"\0061"`, ends},
		{all, "SAVEPOINT a; SELECT 1", ends},
		{all, "SELECT 1; ROLLBACK TO a", ends},

		// Where dialects cut differently.
		{pg, `SELECT 'a\'; COMMIT; --'`, ends},
		{lite, `SELECT 'a\'; COMMIT; --'`, ends},
		{my, `SELECT 'a\'; COMMIT; --'`, plain},
		{my, `SELECT "a\"; COMMIT; --"`, plain},
		{pg, `SELECT E'a\'; COMMIT; --'`, plain},
		{pg, `SELECT e'a' ` + "\n" + ` 'b\'; COMMIT; --'`, plain},
		{pg, `SELECT E'a', 'b\'; COMMIT; --'`, ends},
		{pg, `SELECT nameE'a\'; COMMIT; --'`, ends},
		{pg, "SELECT $$; COMMIT$$", plain},
		{pg, "SELECT $a$; $$ COMMIT; $b$ $a$", plain},
		{pg, "SELECT $1; COMMIT", ends},
		{pg, "SELECT $1$a$; COMMIT $a$", plain},
		{pg, "SELECT a$$; COMMIT; SELECT b$$", ends},
		{pg, "SELECT $é$ ; COMMIT $é$", plain},
		{pg, "SELECT $ ; COMMIT", ends},
		{pg, "/* a /* b */ ; COMMIT */ SELECT 1", plain},
		{lite, "/* a /* b */ ; COMMIT -- */", ends},
		{pg, "-- a\rCOMMIT", ends},
		{lite, "-- a\rCOMMIT", plain},
		{my, "SELECT 5--1; COMMIT", ends},
		{pg, "SELECT 5--1; COMMIT", plain},
		{my, "SELECT 5 # 1; COMMIT", plain},
		{pg, "SELECT 5 # 1; COMMIT", ends},
		{my, "/*!40101 COMMIT */", ends},
		{my, "/*M!100100 COMMIT */", ends},
		{my, "SELECT 1 /*! ; COMMIT */", ends},
		{my, "SELECT 1 /*! + 1 */; COMMIT", ends},
		{lite, "SELECT [a;COMMIT] FROM t", plain},
		{pg, "SELECT a[1]; COMMIT", ends},
		{pg, "SELECT `; COMMIT", ends},
		{lite, "SELECT `a;COMMIT`", plain},

		// Bodies.
		{lite, "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET n = 1; END", plain},
		{lite, "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET n = CASE WHEN 1 THEN 2 END; END; COMMIT", ends}, //nolint:dupword // two ends
		{lite, "CREATE TABLE t (begin int); COMMIT", ends},
		{pg, "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END", plain},
		{pg, "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; COMMIT", ends},
		{pg, "CREATE TABLE t (); COMMIT", ends},

		// MySQL commits by itself.
		{my, "CREATE TABLE t (n int)", implicit},
		{my, "create temporary table t (n int)", plain},
		{my, "CREATE OR REPLACE TEMPORARY TABLE t (n int)", plain},
		{my, "CREATE OR REPLACE VIEW v AS SELECT 1", implicit},
		{my, "DROP TEMPORARY TABLE t", plain},
		{my, "DROP PREPARE p", plain},
		{my, "DROP TABLE t", implicit},
		{my, "TRUNCATE t", implicit},
		{my, "ALTER TABLE t ADD n int", implicit},
		{my, "LOCK TABLES t WRITE", implicit},
		{my, "GRANT ALL ON t TO u", implicit},
		{my, "ANALYZE TABLE t", implicit},
		{my, "ANALYZE FORMAT=JSON SELECT 1", plain},
		{my, "ANALYZE; COMMIT", ends},
		{my, "LOAD DATA INFILE 'x' INTO TABLE t", plain},
		{my, "LOAD INDEX INTO CACHE t", implicit},
		{my, "RESET PERSIST", plain},
		{my, "SET autocommit = 1", implicit},
		{my, "SET @a = 1, @@session.AutoCommit = 1", implicit},
		{my, "SET SESSION `autocommit` = 1", implicit},
		{my, "SET @a = 1", plain},
		{my, "SET @a = 1; COMMIT", ends},
		{my, "SET PASSWORD = 'x'", implicit},
		{my, "SELECT 1; DROP TABLE t", implicit},
		{my, "IF 1 THEN COMMIT; END IF", ends},
		{my, "SET STATEMENT max_statement_time = 1 FOR SELECT 1", plain},
		{my, "SET STATEMENT a = 'FOR', b = 2 FOR COMMIT", ends},
		{my, "set statement a = 1 for /* ! */ rollback to a", command{rollbackTo, "a"}},
		{my, "SET STATEMENT a = 1 FOR DROP TABLE t", implicit},
		{my, "SET STATEMENT a = 1 FOR SET autocommit = 1", implicit},
		{my, "SET STATEMENT a = 1; COMMIT", ends},
		{my, "SET statement_for = 1", plain},
		{my, "BACKUP STAGE START", implicit},
		{pg, "CREATE TABLE t (n int)", plain},
		{pg, "TRUNCATE t", plain},
		{lite, "DROP TABLE t", plain},
	}
	for _, tt := range tests {
		for _, d := range tt.dialects {
			if got := d.parse(tt.text); got != tt.want {
				t.Errorf("%s: %q: got %v, want %v", d, tt.text, got, tt.want)
			}
		}
	}
}

// FuzzCommandKeepsItsClass checks that every text is cut to its end, and that what cannot
// change its meaning does not change its class: a comment before it, capitals.
func FuzzCommandKeepsItsClass(f *testing.F) {
	for _, text := range []string{
		"SELECT 1; COMMIT", "ROLLBACK TO SAVEPOINT \"a\"\"b\"", "SAVEPOINT [a", "/*!40101 SET autocommit", "-- \r\nEND",
		"RELEASE \"AAa", "SELECT $a$;$a$;E'\\'';", "CREATE TRIGGER x BEGIN CASE 1 END; END ; XA", "RELEASE `a``", "'", "\xef\xbb\xbf;", "$1$", "/*/**/",
	} {
		f.Add(uint8(1), text)
		f.Add(uint8(2), text)
		f.Add(uint8(3), text)
	}
	f.Fuzz(func(t *testing.T, dialect uint8, text string) {
		d := Dialect(dialect%3) + PostgreSQL
		want := d.parse(text)
		for _, comment := range []string{"/* x */", "-- x\n", " /*;*/ \t"} {
			if got := d.parse(comment + text); got != want {
				t.Errorf("%s: %q: %v, but with %q before it %v", d, text, want, comment, got)
			}
		}
		if d == PostgreSQL && strings.ContainsRune(text, '$') {
			return // the tags of dollar quotes tell capitals apart
		}
		got := d.parse(capitals(text))
		if got.verb != want.verb || lowerASCII(got.name) != lowerASCII(want.name) {
			t.Errorf("%s: %q: %v, but in capitals %v", d, text, want, got)
		}
	})
}

func capitals(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// FuzzTokensReachTheEnd checks that tokens follow each other without overlap and that the
// lexer always arrives at the end.
func FuzzTokensReachTheEnd(f *testing.F) {
	f.Add(uint8(1), "SELECT $$ 'a' /* b */ $$")
	f.Add(uint8(2), "/*!1*/-- x")
	f.Add(uint8(3), "[`\"'")
	f.Fuzz(func(t *testing.T, dialect uint8, text string) {
		l := lexer{text: text, dialect: Dialect(dialect%3) + PostgreSQL}
		for range len(text) + 1 {
			before := l.pos
			tok := l.next()
			switch {
			case l.pos > len(text):
				t.Fatalf("past the end of %q", text)
			case tok.kind == tokenEnd:
				return
			case tok.text == "" || l.pos < before+len(tok.text):
				t.Fatalf("token %q of %q after %d ends at %d", tok.text, text, before, l.pos)
			}
		}
		t.Fatalf("%q never ends", text)
	})
}

func TestEndsOfATransaction(t *testing.T) {
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
