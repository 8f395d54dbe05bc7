package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

var errDriver = errors.New("the driver says no")

// TestEveryErrorPoisons drops one error of each origin and then checks that the
// transaction runs nothing more and cannot commit.
func TestEveryErrorPoisons(t *testing.T) {
	t.Parallel()
	const bad = "UPDATE bad SET n = 1"
	tests := []struct {
		name   string
		setup  func(f *fake)
		misuse func(tx *sql.Tx) error
		first  string // the statement named by the refusal
		ran    int    // statements that reached the database
	}{
		{
			"Exec", func(f *fake) { f.errs["exec "+bad] = errDriver },
			func(tx *sql.Tx) error { _, err := tx.Exec(bad); return err }, bad, 1,
		},
		{
			"Query", func(f *fake) { f.errs["query "+bad] = errDriver },
			func(tx *sql.Tx) error { _, err := tx.Query(bad); return err }, bad, 1,
		},
		{
			"Prepare", func(f *fake) { f.errs["prepare "+bad] = errDriver },
			func(tx *sql.Tx) error { _, err := tx.Prepare(bad); return err }, bad, 0,
		},
		{
			"Stmt.Exec", func(f *fake) { f.errs["stmt exec "+bad] = errDriver },
			func(tx *sql.Tx) error {
				return prepared(tx, bad, func(s *sql.Stmt) error { _, err := s.Exec(); return err })
			},
			bad, 1,
		},
		{
			"Stmt.Query", func(f *fake) { f.errs["stmt query "+bad] = errDriver },
			func(tx *sql.Tx) error {
				return prepared(tx, bad, func(s *sql.Stmt) error { _, err := s.Query(); return err })
			},
			bad, 1,
		},
		{
			"Exec skipped to Stmt.Exec",
			func(f *fake) { f.errs["exec "+bad], f.errs["stmt exec "+bad] = driver.ErrSkip, errDriver },
			func(tx *sql.Tx) error { _, err := tx.Exec(bad); return err }, bad, 1,
		},
		{
			"argument", func(f *fake) { f.checks = func(*driver.NamedValue) error { return errDriver } },
			func(tx *sql.Tx) error { _, err := tx.Exec(bad, 1); return err }, "", 0,
		},
		{
			"argument that no driver knows", func(*fake) {},
			func(tx *sql.Tx) error { _, err := tx.Exec(bad, make(chan int)); return err }, "", 0,
		},
		{
			"argument of Stmt", func(f *fake) { f.checks = func(*driver.NamedValue) error { return errDriver } },
			func(tx *sql.Tx) error {
				return prepared(tx, bad, func(s *sql.Stmt) error { _, err := s.Exec(1); return err })
			},
			bad, 0,
		},
		{
			"argument of Stmt with ColumnConverter", func(f *fake) { f.convert = noConverter{} },
			func(tx *sql.Tx) error {
				return prepared(tx, bad, func(s *sql.Stmt) error { _, err := s.Exec(1); return err })
			},
			bad, 0,
		},
		{
			"number of arguments", func(f *fake) { f.inputs = 1 },
			func(tx *sql.Tx) error {
				return prepared(tx, bad, func(s *sql.Stmt) error { _, err := s.Exec(1, 2); return err })
			}, bad, 0,
		},
		{
			"number of arguments with ColumnConverter", func(f *fake) { f.convert, f.inputs = driver.Int32, 1 },
			func(tx *sql.Tx) error {
				return prepared(tx, bad, func(s *sql.Stmt) error { _, err := s.Query(1, 2); return err })
			}, bad, 0,
		},
		{
			"Rows.Next", func(f *fake) { f.results[bad] = []error{nil, errDriver} },
			func(tx *sql.Tx) error { return drained(tx.Query(bad)) }, bad, 1,
		},
		{
			"Rows.Next of Stmt", func(f *fake) { f.results[bad] = []error{nil, errDriver} },
			func(tx *sql.Tx) error {
				return prepared(tx, bad, func(s *sql.Stmt) error { return drained(s.Query()) })
			}, bad, 1,
		},
		{
			"Rows.Close", func(f *fake) { f.results[bad], f.errs["rows close"] = []error{nil, nil}, errDriver },
			func(tx *sql.Tx) error {
				rows, err := tx.Query(bad)
				return errors.Join(err, rows.Close())
			}, bad, 1,
		},
		{
			"context that ends between two rows", func(f *fake) { f.results[bad] = []error{nil, nil} },
			func(tx *sql.Tx) error {
				ctx, cancel := context.WithCancel(context.Background())
				rows, err := tx.QueryContext(ctx, bad)
				rows.Next()
				cancel()
				for rows.Err() == nil { // until database/sql has noticed
					runtime.Gosched()
				}
				return errors.Join(err, rows.Err(), rows.Close())
			}, bad, 1,
		},
		{
			"Rows.NextResultSet", func(f *fake) { f.results[bad], f.errs["next result"] = []error{nil}, errDriver },
			func(tx *sql.Tx) error {
				rows, err := tx.Query(bad)
				rows.NextResultSet()
				return errors.Join(err, rows.Err())
			}, bad, 1,
		},
		{
			"context that ends in a statement", func(f *fake) { f.errs["exec "+bad] = context.DeadlineExceeded },
			func(tx *sql.Tx) error { _, err := tx.Exec(bad); return err }, bad, 1,
		},
		{
			"COMMIT by hand", func(*fake) {},
			func(tx *sql.Tx) error { _, err := tx.Exec("/* done */ commit"); return err }, "/* done */ commit", 0,
		},
		{
			"COMMIT by query", func(*fake) {},
			func(tx *sql.Tx) error { return drained(tx.Query("COMMIT")) }, "COMMIT", 0,
		},
		{
			"COMMIT by statement", func(*fake) {},
			func(tx *sql.Tx) error { _, err := tx.Prepare("COMMIT"); return err }, "COMMIT", 0,
		},
	}
	for _, tt := range tests {
		for _, d := range []Dialect{PostgreSQL, SQLite} {
			t.Run(d.String()+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				f := newFake()
				tx, txn := begun(t, f, d)
				tt.setup(f)
				cause := tt.misuse(tx)
				if cause == nil {
					t.Fatal("the misuse succeeded")
				}
				if f.convert != nil {
					f.convert = driver.Int32
				}
				f.checks = nil
				f.took()

				_, exec := tx.Exec("INSERT INTO effect VALUES (1)")
				_, query := tx.Query("SELECT 1")
				_, prepare := tx.Prepare("SELECT 2")
				_, late := tx.Exec("SAVEPOINT late")
				_, back := tx.Exec("ROLLBACK TO late")
				wantCalls(t, f)
				standing := txn.Err()
				commit := tx.Commit()
				wantCalls(t, f, "exec ROLLBACK")

				var first *StatementError
				if !errors.As(standing, &first) || first.Statement != tt.first {
					t.Errorf("Txn.Err() = %v, want one of %q", standing, tt.first)
				}
				for _, err := range []error{exec, query, prepare, late, back, commit} {
					var refused *RefusedError
					switch {
					case !errors.As(err, &refused):
						t.Errorf("not refused: %v", err)
					case refused.First != first:
						t.Errorf("refused for %v, want %v", refused.First, first)
					case !strings.Contains(err.Error(), "Try: "):
						t.Errorf("no advice: %v", err)
					}
				}
				if txn.Statements() != tt.ran {
					t.Errorf("Statements() = %d, want %d", txn.Statements(), tt.ran)
				}
			})
		}
	}
}

type noConverter struct{}

func (noConverter) ConvertValue(any) (driver.Value, error) { return nil, errDriver }

// prepared returns nil, which no test here expects, if query cannot be prepared.
func prepared(tx *sql.Tx, query string, use func(*sql.Stmt) error) error {
	s, err := tx.Prepare(query)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	return use(s)
}

func drained(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

func TestWhatDoesNotPoison(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, SQLite)
	f.errs["exec SELECT skipped"] = driver.ErrSkip
	f.results["SELECT rows"] = []error{nil, nil, io.EOF}
	f.checks = func(arg *driver.NamedValue) error {
		if arg.Value == "an option" {
			return driver.ErrRemoveArgument
		}
		return driver.ErrSkip
	}
	_, err := tx.Exec("SELECT skipped", "an option", 1)
	must(t, err)
	must(t, drained(tx.Query("SELECT rows")))
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := tx.QueryContext(ctx, "SELECT rows")
	must(t, err)
	for rows.Next() { // to the end
	}
	cancel()
	must(t, rows.Close())
	rows, err = tx.Query("SELECT rows")
	must(t, err)
	rows.Next()
	must(t, rows.Close()) // before the end, because the caller has seen enough
	must(t, txn.Err())
	if txn.Statements() != 4 {
		t.Errorf("Statements() = %d, want 4", txn.Statements())
	}
	must(t, tx.Commit())
}

// TestReadToTheEnd: what ends after the last row was read has missed nothing.
func TestReadToTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := &rows{Rows: &fakeRows{f: newFake(), results: []error{nil}}, ctx: ctx, txn: new(Txn)}
	must(t, r.Next(make([]driver.Value, 1)))
	if err := r.Next(nil); err != io.EOF { //nolint:errorlint // identity counts
		t.Fatal(err)
	}
	cancel()
	must(t, r.Close())
	must(t, r.txn.Err())
}

// TestFirstErrorStays: what fails later is a consequence, and not worth telling.
func TestFirstErrorStays(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, PostgreSQL)
	f.results["SELECT 1"] = []error{nil, errors.New("second")}
	rows, err := tx.Query("SELECT 1")
	must(t, err)
	f.failing("exec UPDATE t", errDriver)
	if _, err := tx.Exec("UPDATE t"); !errors.Is(err, errDriver) {
		t.Fatal(err)
	}
	if err := drained(rows, nil); err == nil {
		t.Fatal("rows ended well")
	}
	if !errors.Is(txn.Err(), errDriver) {
		t.Errorf("Err() = %v", txn.Err())
	}
	if err := tx.Commit(); !errors.Is(err, errDriver) {
		t.Errorf("Commit() = %v", err)
	}
}
