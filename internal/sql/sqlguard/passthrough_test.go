package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"
)

// TestUnguardedIsUnchanged plays one scene, errors and all, on the bare driver
// and on the wrapped one: what reaches the driver and what comes back must be
// the same.
func TestUnguardedIsUnchanged(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{PostgreSQL, MySQL, SQLite} {
		for name, setup := range map[string]func(*fake){
			"modern":     func(*fake) {},
			"minimal":    func(f *fake) { f.minimal = true },
			"skipping":   func(f *fake) { f.errs["exec UPDATE t"], f.errs["query SELECT 1"] = driver.ErrSkip, driver.ErrSkip },
			"failing":    func(f *fake) { f.errs["exec UPDATE t"], f.errs["query SELECT 1"] = errDriver, errDriver },
			"bad line":   func(f *fake) { f.errs["exec UPDATE t"] = driver.ErrBadConn },
			"no commit":  func(f *fake) { f.errs["commit"], f.errs["rollback"] = errDriver, errDriver },
			"bad rows":   func(f *fake) { f.results["SELECT 1"] = []error{nil, errDriver, nil} },
			"checking":   func(f *fake) { f.checks = func(*driver.NamedValue) error { return nil } },
			"rejecting":  func(f *fake) { f.checks = func(*driver.NamedValue) error { return errDriver } },
			"converting": func(f *fake) { f.convert = driver.Int32 },
			"counting":   func(f *fake) { f.inputs = 1 },
			"no begin":   func(f *fake) { f.errs["begin"] = errDriver },
			"unprepared": func(f *fake) { f.errs["prepare UPDATE t"] = errDriver },
			"more results": func(f *fake) {
				f.results["SELECT 1"], f.errs["next result"] = []error{nil, nil}, errDriver
			},
		} {
			bare, wrapped := newFake(), newFake()
			setup(bare)
			setup(wrapped)
			want := scene(sql.OpenDB(bare))
			got := scene(sql.OpenDB(Wrap(wrapped, d)))
			wantSame(t, fmt.Sprintf("%s, %s driver, seen", d, name), got, want)
			wantSame(t, fmt.Sprintf("%s, %s driver, done", d, name), wrapped.took(), bare.took())
		}
	}
}

func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i == len(got) || i == len(want) || got[i] != want[i] {
			t.Errorf("%s: from %d on %q, want %q", what, i, got[min(i, len(got)):], want[min(i, len(want)):])
			return
		}
	}
}

// scene returns what a user sees.
func scene(db *sql.DB) (seen []string) {
	db.SetMaxOpenConns(1)
	defer db.Close()
	see := func(what string, err error) { seen = append(seen, fmt.Sprintf("%s: %v", what, err)) }
	statements := func(q interface {
		Exec(query string, args ...any) (sql.Result, error)
		Query(query string, args ...any) (*sql.Rows, error)
		Prepare(query string) (*sql.Stmt, error)
	},
	) {
		for _, arg := range []any{1, "x", struct{}{}, sql.NullInt64{}, sql.Named("a", 1)} {
			_, err := q.Exec("UPDATE t", arg)
			see("exec", err)
			see("query", drained(q.Query("SELECT 1", arg)))
			stmt, err := q.Prepare("UPDATE t")
			see("prepare", err)
			if err != nil {
				continue
			}
			_, err = stmt.Exec(arg)
			see("stmt exec", err)
			see("stmt query", drained(stmt.Query(arg, 2)))
			see("stmt close", stmt.Close())
		}
		rows, err := q.Query("SELECT 1")
		see("types of", err)
		if err == nil {
			types, err := rows.ColumnTypes()
			see("types", err)
			for _, c := range types {
				length, sized := c.Length()
				nullable, known := c.Nullable()
				seen = append(seen, fmt.Sprint(c.Name(), c.DatabaseTypeName(), c.ScanType(), length, sized, nullable, known))
			}
			see("another", fmt.Errorf("%v, %w", rows.NextResultSet(), rows.Close()))
		}
	}
	see("ping", db.Ping())
	statements(db)
	for _, opts := range []*sql.TxOptions{nil, {ReadOnly: true}, {Isolation: sql.LevelSerializable}} {
		tx, err := db.BeginTx(context.Background(), opts)
		see("begin", err)
		if err != nil {
			continue
		}
		statements(tx)
		_, err = tx.Exec("COMMIT")
		see("COMMIT", err)
		see("commit", tx.Commit())
		see("rollback", tx.Rollback())
	}
	tx, err := db.Begin()
	see("begin", err)
	if err == nil {
		see("rollback", tx.Rollback())
	}
	return seen
}

// TestCancelledUnguarded: a driver that cannot reset or validate its connections
// loses one whose transaction's context ended, with and without the guard.
func TestCancelledUnguarded(t *testing.T) {
	t.Parallel()
	for _, minimal := range []bool{false, true} {
		opens := func(db *sql.DB, f *fake) int {
			db.SetMaxOpenConns(1)
			defer db.Close()
			ctx, cancel := context.WithCancel(t.Context())
			_, err := db.BeginTx(ctx, nil)
			must(t, err)
			cancel()
			_, err = db.Exec("UPDATE t") // waits for the connection
			must(t, err)
			return f.opens
		}
		bare, wrapped := newFake(), newFake()
		bare.minimal, wrapped.minimal = minimal, minimal
		want := opens(sql.OpenDB(bare), bare)
		if got := opens(sql.OpenDB(Wrap(wrapped, SQLite)), wrapped); got != want {
			t.Errorf("minimal %v: %d connections, want %d", minimal, got, want)
		}
	}
}

func TestUnguardedAllocatesNothing(t *testing.T) {
	f := &silent{}
	c, err := Wrap(f, PostgreSQL).Connect(t.Context())
	must(t, err)
	conn := c.(*conn)
	ctx := context.WithValue(t.Context(), new(int), 1)
	check := func(what string) {
		if n := testing.AllocsPerRun(100, func() {
			_, _ = conn.ExecContext(ctx, "UPDATE t SET n = 1", nil)
			_, _ = conn.QueryContext(ctx, "SELECT 1", nil)
		}); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	check("outside a transaction")
	tx, err := conn.BeginTx(ctx, driver.TxOptions{})
	must(t, err)
	check("in an unguarded transaction")
	must(t, tx.Rollback())
	tx, err = conn.BeginTx(new(Txn).Context(ctx), driver.TxOptions{})
	must(t, err)
	if n := testing.AllocsPerRun(100, func() { _, _ = conn.ExecContext(ctx, "UPDATE t SET n = 1", nil) }); n != 0 {
		t.Errorf("guarded Exec: %v allocations", n)
	}
	must(t, tx.Rollback())
}

// silent does nothing as fast as possible.
type silent struct{ driver.Tx }

func (s *silent) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (*silent) Driver() driver.Driver                          { return nil }
func (*silent) Prepare(string) (driver.Stmt, error)            { return nil, errDriver }
func (*silent) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errDriver
}
func (*silent) Close() error                { return nil }
func (s *silent) Begin() (driver.Tx, error) { return s, nil }
func (s *silent) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return s, nil
}
func (*silent) Rollback() error { return nil }
func (*silent) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (*silent) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, nil //nolint:nilnil // not looked at
}

// BenchmarkExecUnderTheGuard shows what the guard itself costs, under a driver that costs
// nothing.
func BenchmarkExecUnderTheGuard(b *testing.B) {
	const query = "UPDATE account SET balance = balance - $1 WHERE id = $2 AND balance >= $1"
	for _, guarded := range []bool{false, true} {
		for _, wrapped := range []bool{false, true} {
			if guarded && !wrapped {
				continue
			}
			b.Run(fmt.Sprintf("wrapped=%v/guarded=%v", wrapped, guarded), func(b *testing.B) {
				var conn driver.ExecerContext = &silent{}
				ctx := context.Background()
				if wrapped {
					c, err := Wrap(&silent{}, PostgreSQL).Connect(ctx)
					must(b, err)
					begin := ctx
					if guarded {
						begin = new(Txn).Context(ctx)
					}
					_, err = c.(driver.ConnBeginTx).BeginTx(begin, driver.TxOptions{})
					must(b, err)
					conn = c.(driver.ExecerContext)
				}
				b.ReportAllocs()
				for b.Loop() {
					_, _ = conn.ExecContext(ctx, query, nil)
				}
			})
		}
	}
}

func BenchmarkParseOfStatements(b *testing.B) {
	for name, query := range map[string]string{
		"one":   "INSERT INTO t (a, b, c) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
		"batch": "INSERT INTO t (a, b, c) VALUES (1, 'two', 3); UPDATE t SET a = 'x' WHERE b = 2 -- why\n; DELETE FROM t",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				PostgreSQL.parse(query)
			}
		})
	}
}
