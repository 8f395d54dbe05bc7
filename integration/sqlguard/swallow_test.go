package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
)

// misuse is a way to fail inside a transaction. Its error is dropped by the
// caller, who goes on and commits.
type misuse struct {
	name string
	fail func(t *testing.T, g *testDB, tx *sql.Tx) error

	// What the same leaves without the guard.
	keys, effects int
}

func execs(statement string, args ...any) func(*testing.T, *testDB, *sql.Tx) error {
	return func(t *testing.T, _ *testDB, tx *sql.Tx) error {
		t.Helper()
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	}
}

func reads(statement string) func(*testing.T, *testDB, *sql.Tx) error {
	return func(t *testing.T, _ *testDB, tx *sql.Tx) error {
		t.Helper()
		rows, err := tx.QueryContext(t.Context(), statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		got := 0
		for rows.Next() {
			got++
		}
		if got == 0 {
			t.Error("the error came before the first row")
		}
		return rows.Err()
	}
}

// deadline runs a statement that takes longer than its context.
func deadline(statement string) func(*testing.T, *testDB, *sql.Tx) error {
	return func(t *testing.T, _ *testDB, tx *sql.Tx) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := tx.ExecContext(ctx, statement)
		return err
	}
}

// halfRead lets the context end while rows are open.
func halfRead(statement string) func(*testing.T, *testDB, *sql.Tx) error {
	return func(t *testing.T, _ *testDB, tx *sql.Tx) error {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rows, err := tx.QueryContext(ctx, statement)
		if err != nil || !rows.Next() {
			t.Fatalf("the error came before the first row: %v", err)
		}
		defer rows.Close()
		cancel()
		for rows.Next() { // more than can be read by then
		}
		return rows.Err()
	}
}

const manyRows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 50000000) "

func TestSwallowedErrorPostgreSQL(t *testing.T) {
	t.Parallel()
	for _, m := range []misuse{
		{"constraint", execs("INSERT INTO taken VALUES (1)"), 0, 0},
		{"division by zero", execs("SELECT 1 / 0"), 0, 0},
		{"no such table", execs("SELECT * FROM nowhere"), 0, 0},
		{"error after some rows", reads("SELECT 10 / (5 - g) FROM generate_series(1, 9) g"), 0, 0},
		{"error behind the only row read", func(t *testing.T, _ *testDB, tx *sql.Tx) error {
			t.Helper()
			var n int
			return tx.QueryRowContext(t.Context(), "SELECT 10 / (5 - g) FROM generate_series(1, 9) g").Scan(&n)
		}, 0, 0},
		{"prepare", func(t *testing.T, _ *testDB, tx *sql.Tx) error {
			t.Helper()
			_, err := tx.PrepareContext(t.Context(), "SELECT nothing")
			return err
		}, 0, 0},
		{"number of arguments of a statement", func(t *testing.T, _ *testDB, tx *sql.Tx) error {
			t.Helper()
			s, err := tx.PrepareContext(t.Context(), "INSERT INTO effect VALUES ($1)")
			must(t, err)
			defer s.Close()
			_, err = s.ExecContext(t.Context(), 1, 2)
			return err
		}, 1, 1},
		{"argument of no known type", execs("INSERT INTO effect VALUES ($1)", make(chan int)), 1, 1},
		{"statement timeout", execs("SET LOCAL statement_timeout = 20; SELECT pg_sleep(5)"), 0, 0},
		{"deadline", deadline("SELECT pg_sleep(5)"), 0, 0},
		{"deadline between rows", halfRead("SELECT repeat('x', 10000), pg_sleep(0.002) FROM generate_series(1, 100000)"), 0, 0},
		{"COMMIT by hand", execs("/* x */ ; commit"), 1, 1},
		{"COMMIT in a batch", execs("SELECT 1; SELECT $$;$$; COMMIT; SELECT 2"), 1, 1},
		{"killed", func(t *testing.T, g *testDB, tx *sql.Tx) error {
			t.Helper()
			var pid int
			must(t, tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
			var ok bool
			must(t, g.bare.QueryRowContext(t.Context(), "SELECT pg_terminate_backend($1, 60000)", pid).Scan(&ok))
			_, err := tx.ExecContext(t.Context(), "SELECT 1")
			return err
		}, 0, 0},
	} {
		t.Run(m.name, func(t *testing.T) { t.Parallel(); swallow(t, postgres, m) })
	}
}

func TestSwallowedErrorSQLite(t *testing.T) {
	t.Parallel()
	for _, m := range []misuse{
		{"constraint", execs("INSERT INTO taken VALUES (1)"), 1, 1},
		{"overflow", execs("SELECT abs(-9223372036854775807 - 1)"), 1, 1},
		{"no such table", execs("SELECT * FROM nowhere"), 1, 1},
		{"error after some rows", reads("SELECT abs(CASE x WHEN 3 THEN -9223372036854775807 - 1 ELSE x END) FROM (" + manyRows + "SELECT x FROM c LIMIT 5)"), 1, 1},
		{"argument of no known type", execs("INSERT INTO effect VALUES (?)", make(chan int)), 1, 1},
		{"missing argument", execs("INSERT INTO effect VALUES (?)"), 1, 1},
		// SQLite takes back the statement alone if it could have failed half-way
		// for another reason, too, and else everything.
		{"full, statement rolled back", execs("INSERT INTO taken " + manyRows + "SELECT x + 2 FROM c"), 1, 1},
		{"full, transaction rolled back", execs("INSERT INTO effect " + manyRows + "SELECT x FROM c"), 0, 1},
		{"OR ROLLBACK", execs("INSERT OR ROLLBACK INTO taken VALUES (1)"), 0, 1},
		{"RAISE(ROLLBACK)", execs("DELETE FROM taken"), 0, 1},
		{"deadline", deadline("INSERT INTO effect " + manyRows + "SELECT x FROM c WHERE x < 0"), 0, 1},
		{"deadline between rows", halfRead(manyRows + "SELECT x FROM c"), 1, 1},
		{"COMMIT by hand", execs("/* x */ ; commit"), 1, 1},
		{"END in a batch", execs("SELECT 1; END; SELECT [;] FROM (SELECT 1 AS [;])"), 1, 1},
		{"lock of another's", func(t *testing.T, _ *testDB, tx *sql.Tx) error {
			t.Helper()
			_, err := tx.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
			return err
		}, 1, 1},
	} {
		t.Run(m.name, func(t *testing.T) { t.Parallel(); swallow(t, small, m) })
	}
}

// small is a SQLite file that may not grow much.
func small(t testing.TB) *testDB {
	t.Helper()
	g := lite(t, "&_pragma=max_page_count(60)")
	g.run(t, "CREATE TRIGGER forbid BEFORE DELETE ON taken BEGIN SELECT RAISE(ROLLBACK, 'not that'); END")
	return g
}

// swallow plays a misuse without and with the guard.
func swallow(t *testing.T, on func(testing.TB) *testDB, m misuse) {
	t.Helper()
	t.Run("bare", func(t *testing.T) {
		t.Parallel()
		g := on(t)
		tx, err := g.bare.BeginTx(context.Background(), nil)
		must(t, err)
		bad, _ := carryOn(t, g, tx, m)
		_ = tx.Commit()
		if k, e := g.count(t, "once_key"), g.count(t, "effect"); k != m.keys || e != m.effects {
			t.Errorf("without the guard %d keys and %d effects are left, want %d and %d (%v)", k, e, m.keys, m.effects, bad)
		}
	})
	t.Run("guarded", func(t *testing.T) {
		t.Parallel()
		g := on(t)
		tx, txn := g.begin(t)
		bad, after := carryOn(t, g, tx, m)
		if bad == nil {
			t.Error("the misuse succeeded")
		}
		var refused *sqlguard.RefusedError
		if !errors.As(after, &refused) {
			t.Errorf("the next statement: %v", after)
		}
		if !errors.Is(txn.Err(), refused.First) {
			t.Errorf("Err() = %v", txn.Err())
		}
		if err := tx.Commit(); !errors.As(err, &refused) {
			t.Errorf("Commit() = %v", err)
		}
		g.leaves(t, 0, 0)
	})
}

// carryOn writes a key, fails, and writes the effect.
func carryOn(t *testing.T, g *testDB, tx *sql.Tx, m misuse) (bad, after error) {
	t.Helper()
	insert(t, tx, "once_key")
	bad = m.fail(t, g, tx)
	_, after = tx.ExecContext(context.Background(), "INSERT INTO effect VALUES (1)")
	return bad, after
}
