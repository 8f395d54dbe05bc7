package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

// scraps are what comments and literals are filled with: all that could make a
// reader of SQL lose its place.
var scraps = []string{
	"COMMIT", ";COMMIT;", "; end", "begin", "CASE", "CREATE TRIGGER", ";", " ", "\n", "\r", "\t", "x", "1", "[", "]", "'", "''", `"`, `""`, "`",
	"\\", "\\'", `\"`, "E'", "$$", "$a$", "$1", "$", "--", "-", "/*", "*/", "/*!", "#", "é",
}

// covers are what the scraps stand in: "?" is replaced.
var covers = []string{
	"SELECT '?'", "SELECT E'?'", "SELECT U&'?'", `SELECT 1 AS "?"`, "SELECT 1 AS `?`", "SELECT 1 AS [?]", "SELECT $$?$$", "SELECT $a$?$a$",
	"SELECT 1 AS a$$?", "SELECT 1 AS x?", "SELECT '?' '?'", "SELECT '?'\n'?'", "SELECT E'?'\n'?'", "SELECT 5--?", "SELECT ?", "?",
	"CREATE TABLE x (begin int)", "CREATE TRIGGER r AFTER INSERT ON taken BEGIN SELECT '?'; SELECT CASE 1 WHEN 1 THEN 2 END; END",
	"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE 1 WHEN 1 THEN 2 END; END",
	"SAVEPOINT a", `SAVEPOINT "?"`, "ROLLBACK TO a", "COMMIT /*?*/ AND CHAIN",
	"COMMIT", "commit", "End", "ROLLBACK", "COMMIT", "commit", "End", "ROLLBACK", "COMMIT", "commit", "End", "ROLLBACK",
}

// mysqlCovers are those of MySQL, where much commits.
var mysqlCovers = append([]string{
	"SET STATEMENT max_statement_time = 1 FOR COMMIT", "SET STATEMENT sql_mode = '?' FOR SELECT 1", "IF 1 THEN COMMIT", "x: LOOP COMMIT", "SET @x = 1, autocommit = 1",
	"TRUNCATE effect", "CREATE OR REPLACE TABLE y (n int)", "CREATE TEMPORARY TABLE z (n int)", "DROP TEMPORARY TABLE IF EXISTS z", "LOCK TABLES effect WRITE",
	"ANALYZE TABLE effect", "ANALYZE SELECT 1", "FLUSH TABLES", "UNLOCK TABLES",
}, covers...)

// gaps stand between statements and at both ends.
var gaps = []string{"", "", " ", "\n", "\f", "\v", "\ufeff", "/*?*/", "/*?/*?*/?*/", "--?\n", "--?\r", "-- ", "(", "#?\n"}

func randomText(r *rand.Rand, covers []string) string {
	var text strings.Builder
	add := func(from []string) {
		for i, part := range strings.Split(from[r.IntN(len(from))], "?") {
			for range min(i, 1) * r.IntN(4) {
				text.WriteString(scraps[r.IntN(len(scraps))])
			}
			text.WriteString(part)
		}
	}
	add(gaps)
	for i := range 1 + r.IntN(3) {
		if i > 0 {
			text.WriteString(";")
			add(gaps)
		}
		add(covers)
		add(gaps)
	}
	return text.String()
}

// TestNothingEndsUnseen asks the databases themselves: whenever a random text
// ends a transaction, the guard must have refused it. A failure prints the
// text; ONCE_SEED repeats a run.
func TestNothingEndsUnseen(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	both(t, func(t *testing.T, g *testDB) {
		seed := uint64(time.Now().UnixNano())
		if s, err := strconv.ParseUint(os.Getenv("ONCE_SEED"), 10, 64); err == nil {
			seed = s
		}
		random := rand.New(rand.NewPCG(seed, uint64(g.dialect)))
		db := sql.OpenDB(g.connector)
		defer db.Close()
		c, err := db.Conn(t.Context())
		must(t, err)
		defer c.Close()
		covers := covers
		if g.dialect == sqlguard.MySQL {
			covers = mysqlCovers
		}
		ended := 0
		texts := 1000
		if os.Getenv("ONCE_TORTURE") == "long" {
			texts = 100_000
		}
		for range texts {
			text := randomText(random, covers)
			if !ends(t, g, c, text) {
				continue
			}
			ended++
			if !refused(t, g, text) {
				t.Errorf("seed %d: ends the transaction unseen: %q", seed, text)
			}
		}
		if ended < texts/20 {
			t.Errorf("seed %d: only %d texts ended the transaction, which proves nothing", seed, ended)
		}
		t.Logf("%d texts ended the transaction", ended)
	})
}

// ends reports whether a text ends the transaction it runs in.
func ends(t *testing.T, g *testDB, c *sql.Conn, text string) (ended bool) {
	t.Helper()
	must(t, c.Raw(func(driverConn any) error {
		ctx, conn := context.Background(), driverConn.(driver.ExecerContext)
		if _, err := conn.ExecContext(ctx, "BEGIN", nil); err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, "SAVEPOINT open_still", nil); err != nil {
			return err
		}
		_, _ = conn.ExecContext(ctx, text, nil)
		switch g.dialect {
		case sqlguard.PostgreSQL:
			ended = driverConn.(*stdlib.Conn).Conn().PgConn().TxStatus() == 'I'
		case sqlguard.MySQL:
			_, err := conn.ExecContext(ctx, "RELEASE SAVEPOINT open_still", nil)
			ended = err != nil
		default:
			_, err := conn.ExecContext(ctx, "BEGIN", nil)
			ended = err == nil // else it is still open
		}
		_, err := conn.ExecContext(ctx, "ROLLBACK", nil)
		return err
	}))
	return ended
}

// refused reports whether the guard keeps a text from the database.
func refused(t *testing.T, g *testDB, text string) bool {
	t.Helper()
	txn := new(sqlguard.Txn)
	tx, err := g.guarded.BeginTx(txn.Context(t.Context()), nil)
	must(t, err)
	defer tx.Rollback()
	_, err = tx.ExecContext(t.Context(), text)
	return err != nil && txn.Err() != nil && txn.Statements() == 0
}
