package storetest

import (
	"context"
	"testing"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// plane is a store that runs SQL, with a table of the suite.
type plane[TX any] struct {
	*suite[TX]
	db sqlplane.SQL[TX]
}

// testSQL proves that statements of a capability commit with their transaction or not at all. Their errors and values must be
// the same on every database.
func testSQL[TX any](t *testing.T, u *suite[TX]) {
	db, ok := store.As[sqlplane.SQL[TX]](u.s)
	if !ok {
		return // the store keeps its operations elsewhere
	}
	p := &plane[TX]{u, db}
	columns := map[sqlplane.Dialect]string{
		sqlplane.PostgreSQL: "KEY text primary key, n bigint, data bytea, flag boolean, at timestamptz, made timestamptz",
		sqlplane.MySQL:      "KEY varbinary(64) primary key, n bigint, data blob, flag boolean, at bigint, made bigint",
		sqlplane.SQLite:     "KEY text primary key, n integer, data blob, flag boolean, at integer, made integer",
	}[db.Dialect()]
	p.must(t, db.Pool(), p.text("create table storetest_row ("+columns+")"))
	for _, c := range []struct {
		name string
		test func(*testing.T, *plane[TX])
	}{
		{"Values", testSQLValues[TX]},
		{"Times", testSQLTimes[TX]},
		{"Dialect", testSQLDialect[TX]},
		{"Locked", testSQLLocked[TX]},
		{"Errors", testSQLErrors[TX]},
		{"Each", testSQLEach[TX]},
		{"Cancelled", testSQLCancelled[TX]},
		{"Handler", testSQLHandler[TX]},
		{"Own", testSQLOwn[TX]},
		{"Join", testSQLJoin[TX]},
		{"Savepoint", testSQLSavepoint[TX]},
		{"Append", testSQLAppend[TX]},
		{"Within", testSQLWithin[TX]},
		{"Concurrent", testSQLConcurrent[TX]},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, p) })
	}
}

// text returns a statement in the dialect of the store.
func (p *plane[TX]) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(p.db.Dialect(), query), Args: args}
}

// insert returns a statement that adds a row. It fails if the row exists.
func (p *plane[TX]) insert(key string) store.Statement {
	return p.text("insert into storetest_row (KEY) values (?)", key)
}

// count returns the number of committed rows whose keys have the prefix.
func (p *plane[TX]) count(t *testing.T, prefix string) (n int) {
	t.Helper()
	return p.countOn(t, p.db.Pool(), prefix)
}

func (p *plane[TX]) countOn(t *testing.T, r sqlplane.Runner, prefix string) (n int) {
	t.Helper()
	query := p.text("select count(*) from storetest_row where KEY >= ? and KEY < ?", prefix, prefix+"~")
	if err := r.Query(bounded(t), query, func(row sqlplane.Row) error { return row.Scan(&n) }); err != nil {
		t.Fatal("Query:", err)
	}
	return n
}

func (p *plane[TX]) wantRows(t *testing.T, prefix string, want int) {
	t.Helper()
	if n := p.count(t, prefix); n != want {
		t.Errorf("%d rows are committed, want %d", n, want)
	}
}

func (p *plane[TX]) must(t *testing.T, r sqlplane.Runner, st store.Statement) (rows int64) {
	t.Helper()
	rows, err := r.Exec(bounded(t), st)
	if err != nil {
		t.Fatalf("Exec %s: %v", st.SQL, err)
	}
	return rows
}

// runners calls fn with every kind of Runner. The transaction is committed afterwards.
func (p *plane[TX]) runners(t *testing.T, fn func(t *testing.T, r sqlplane.Runner)) {
	t.Run("Pool", func(t *testing.T) { fn(t, p.db.Pool()) })
	t.Run("Within", func(t *testing.T) {
		err := p.db.Within(bounded(t), store.DefaultIsolation, func(_ context.Context, r sqlplane.Runner) error {
			fn(t, r)
			return nil
		})
		if err != nil {
			t.Error("Within:", err)
		}
	})
	t.Run("On", func(t *testing.T) {
		id := newID()
		txn := p.begin(t, id)
		fn(t, p.db.On(txn.Tx()))
		if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
			t.Error("Commit:", err)
		}
	})
}
