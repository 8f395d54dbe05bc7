package sqlguard

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

// onConn returns a guarded transaction and the connection it runs on.
func onConn(t *testing.T, g *testDB) (*sql.Conn, *sql.Tx) {
	t.Helper()
	c, err := g.guarded.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	tx, err := c.BeginTx(new(sqlguard.Txn).Context(t.Context()), nil)
	must(t, err)
	return c, tx
}

// TestEndedUnderneath: what was committed below the guard is there, but COMMIT
// must not report a success that was none of its own.
func TestEndedUnderneath(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	for statement, keys := range map[string]int{"COMMIT": 1, "ROLLBACK": 0} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, g *testDB) {
				t.Helper()
				c, tx := onConn(t, g)
				insert(t, tx, "once_key")
				raw(t, c, statement)
				insert(t, tx, "effect") // in autocommit
				err := tx.Commit()
				failed(t, err, true)
				if !errors.Is(err, sqlguard.ErrEnded) {
					t.Errorf("Commit() = %v", err)
				}
				must(t, c.Close())
				g.leaves(t, keys, 1)
			})
		})
	}
}

// TestRollbackAfterRawCommit: SQLite tells, MySQL is asked, PostgreSQL does not say.
func TestRollbackAfterRawCommit(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	both(t, func(t *testing.T, g *testDB) {
		t.Helper()
		c, tx := onConn(t, g)
		insert(t, tx, "once_key")
		raw(t, c, "COMMIT")
		if err := tx.Rollback(); errors.Is(err, sqlguard.ErrEnded) != (g.dialect != sqlguard.PostgreSQL) {
			t.Errorf("Rollback() = %v", err)
		}
		must(t, c.Close())
		g.leaves(t, 1, 0)
	})
}

// TestAbortedUnderneath is H7: PostgreSQL answers COMMIT with ROLLBACK, which
// not every driver takes for an error. The guard has not seen the statement.
func TestAbortedUnderneath(t *testing.T) {
	t.Parallel()
	g := postgres(t)
	c, tx := onConn(t, g)
	insert(t, tx, "once_key")
	raw(t, c, "SAVEPOINT a")
	must(t, c.Raw(func(driverConn any) error {
		_, err := sqlguard.Unwrap(driverConn).(driver.ExecerContext).ExecContext(t.Context(), "SELECT 1 / 0", nil)
		if err == nil {
			t.Error("divided by zero")
		}
		return nil
	}))
	err := tx.Commit()
	failed(t, err, false)
	if state := sqlguard.SQLState(err); state != "25P02" {
		t.Errorf("state %s", state)
	}
	must(t, c.Close())
	g.leaves(t, 0, 0)
}

// TestJoinGuardsAnOpenTransaction arms the guard for a transaction that another caller has begun.
func TestJoinGuardsAnOpenTransaction(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	both(t, func(t *testing.T, g *testDB) {
		t.Helper()
		for _, fail := range []bool{false, true} {
			tx, err := g.guarded.BeginTx(t.Context(), nil)
			must(t, err)
			insert(t, tx, "effect")
			txn := new(sqlguard.Txn)
			_, err = tx.ExecContext(txn.Context(t.Context()), "INSERT INTO once_key VALUES (1)")
			must(t, err)
			if !fail {
				must(t, tx.Commit())
				g.leaves(t, 1, 1)
				continue
			}
			_, err = tx.ExecContext(t.Context(), "INSERT INTO taken VALUES (1)")
			if !errors.Is(txn.Err(), err) {
				t.Errorf("Err() = %v, want %v", txn.Err(), err)
			}
			if err := tx.Commit(); err == nil {
				t.Error("committed")
			}
			g.leaves(t, 0, 0)
		}
	})
}

// TestJoinTooLate: nothing may run in what is no transaction any more, or one
// that has failed already.
func TestJoinTooLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		on    func(testing.TB) *testDB
		spoil string
		ended bool
	}{
		"PostgreSQL, committed":       {postgres, "COMMIT", true},
		"PostgreSQL, aborted":         {postgres, "SELECT 1 / 0", false},
		"SQLite, committed":           {small, "COMMIT", true},
		"SQLite, rolled back":         {small, "INSERT OR ROLLBACK INTO taken VALUES (1)", true},
		"SQLite, file was full":       {small, "INSERT INTO effect " + manyRows + "SELECT x FROM c", true},
		"SQLite, raised in a trigger": {small, "DELETE FROM taken", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := tt.on(t)
			tx, err := g.guarded.BeginTx(t.Context(), nil)
			must(t, err)
			_, _ = tx.ExecContext(t.Context(), tt.spoil) // not guarded yet
			_, err = tx.ExecContext(new(sqlguard.Txn).Context(t.Context()), "INSERT INTO once_key VALUES (1)")
			if err == nil || errors.Is(err, sqlguard.ErrEnded) != tt.ended {
				t.Errorf("joined: %v", err)
			}
			_ = tx.Rollback()
			g.leaves(t, 0, 0)
		})
	}
}

// TestSavepointHeals: an error that the database has undone is forgiven.
func TestSavepointHeals(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	both(t, func(t *testing.T, g *testDB) {
		t.Helper()
		tx, txn := g.begin(t)
		insert(t, tx, "once_key")
		for _, step := range []struct {
			statement string
			fails     bool
		}{
			{`SAVEPOINT "Before"`, false},
			{"SAVEPOINT inner_one", false},
			{"INSERT INTO taken VALUES (3), (1)", true},
			{"INSERT INTO effect VALUES (7)", true},
			{"RELEASE INNER_ONE", true},
			{"SAVEPOINT late", true},
			{"ROLLBACK TO late", true},
			{"rollback /* ! */ to savepoint Inner_One;", false},
			{"INSERT INTO taken VALUES (2)", true},
			{`ROLLBACK TO "Before"`, false},
			{"INSERT INTO effect VALUES (1)", false},
		} {
			if g.dialect == sqlguard.MySQL {
				step.statement = strings.ReplaceAll(step.statement, `"`, "`")
			}
			if _, err := tx.ExecContext(t.Context(), step.statement); (err != nil) != step.fails {
				t.Errorf("%s: %v", step.statement, err)
			}
		}
		must(t, txn.Err())
		must(t, tx.Commit())
		if n := g.count(t, "taken"); n != 2 {
			t.Errorf("%d are taken", n)
		}
		g.leaves(t, 1, 1)
	})
}

// TestSavepointLost: SQLite has rolled back everything, the savepoint with it.
func TestSavepointLost(t *testing.T) {
	t.Parallel()
	g := lite(t, "")
	tx, txn := g.begin(t)
	for _, s := range []string{"INSERT INTO once_key VALUES (1)", "SAVEPOINT a", "INSERT OR ROLLBACK INTO taken VALUES (1)", "ROLLBACK TO a", "INSERT INTO effect VALUES (1)"} {
		_, _ = tx.ExecContext(t.Context(), s)
	}
	if txn.Err() == nil || tx.Commit() == nil {
		t.Error("healed by a savepoint that is gone")
	}
	g.leaves(t, 0, 0)
}
