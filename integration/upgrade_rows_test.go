package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// manyRows is what a table of operations has when its columns are added: as many as in production where the test runs by hand,
// and enough to tell a rewrite in make prove.
func manyRows() int {
	if os.Getenv(testenv.TierVariable) == "" {
		return 1_000_000
	}
	return 10_000
}

// TestColumnsAreAddedWithoutARewrite: an upgrade of a table with many rows writes none of them again, and the statements of the old
// program work on it afterwards. PostgreSQL keeps the file of the table, SQLite its pages, and MariaDB and MySQL add the column instantly.
func TestColumnsAreAddedWithoutARewrite(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		g.fillOld(t, manyRows())
		before := g.place(t)
		if dialectOf[g.Kind] == sqlplane.MySQL {
			for _, column := range addedColumns(t, "mysql") { // the same statement, which fails if it would copy the table
				g.exec(t, column+", algorithm=instant")
			}
		}
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, capabilities...); err != nil {
			t.Fatal(err)
		}
		if after := g.place(t); after != before {
			t.Errorf("the table was at %d and is at %d", before, after)
		}
		do, log, _ := g.repeats(t)
		if _, err := do("new", ""); err != nil {
			t.Fatal(err)
		}
		g.runOldProgram(t)
		if r, err := do("old", ""); err != nil || !r.Replayed || r.Value != "old" {
			t.Errorf("what the old program has done: %+v, %v", r, err)
		}
		if err := log.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := g.count(t, "select count(*) from once_operation where scope = 'many' and name is null"); n != manyRows() {
			t.Errorf("%d rows without a name, want %d", n, manyRows())
		}
	})
}

// fillOld stores n operations that are done, as the old program would have.
func (g *testDB) fillOld(t *testing.T, n int) {
	t.Helper()
	switch dialectOf[g.Kind] {
	case sqlplane.PostgreSQL:
		g.exec(t, fmt.Sprintf("insert into once_operation (scope, key, claim, body) select 'many', n::text, '\\x01', '\\x31' from generate_series(1, %d) n", n))
	case sqlplane.SQLite:
		g.exec(t, fmt.Sprintf("insert into once_operation (scope, key, claim, body, since) with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) "+
			"select 'many', cast(i as text), x'01', x'31', 0 from n", n))
	case sqlplane.MySQL:
		const digits = "(select 0 d union all select 1 union all select 2 union all select 3 union all select 4 union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)"
		from, number := "", "0"
		for i := range 6 {
			from += strings.TrimPrefix(fmt.Sprintf(", %s d%d", digits, i), map[bool]string{true: ", "}[i == 0])
			number = fmt.Sprintf("10 * (%s) + d%d.d", number, i)
		}
		g.exec(t, fmt.Sprintf("insert into once_operation (scope, `key`, state, claim, body, since) select 'many', %s, 2, 'x', '1', 0 from %s where %s < %d", number, from, number, n))
	}
}

// place is where the rows of the table are: it changes when they are written again.
func (g *testDB) place(t *testing.T) int {
	t.Helper()
	switch dialectOf[g.Kind] {
	case sqlplane.PostgreSQL:
		return g.count(t, "select pg_relation_filenode('once_operation')::int")
	case sqlplane.SQLite:
		return g.count(t, "select rootpage from sqlite_master where name = 'once_operation'")
	case sqlplane.MySQL:
	}
	return 0 // algorithm=instant tells
}

// addedColumns are the statements of migrations which add a column to the table.
func addedColumns(t *testing.T, dialect string) (list []string) {
	t.Helper()
	all, err := migration.All(sqlplane.Dialect(dialect), migration.Operation)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		for statement := range strings.SplitSeq(m.SQL, ";") {
			if i := strings.Index(statement, "alter table once_operation add column"); i >= 0 {
				list = append(list, strings.TrimSpace(statement[i:]))
			}
		}
	}
	if len(list) < 2 {
		t.Fatalf("%d columns are added, want those of trace and name at least", len(list))
	}
	return list
}
