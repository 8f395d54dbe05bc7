package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

// lockedRow runs a statement into a row that another transaction has locked.
func lockedRow(t *testing.T, g *testDB, tx *sql.Tx) error {
	t.Helper()
	other, err := g.bare.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = other.Rollback() }()
	_, err = other.ExecContext(t.Context(), "SELECT * FROM taken WHERE id = 1 FOR UPDATE")
	must(t, err)
	_, err = tx.ExecContext(t.Context(), "SET innodb_lock_wait_timeout = 1")
	must(t, err)
	_, err = tx.ExecContext(t.Context(), "DELETE FROM taken WHERE id = 1")
	wantNumber(t, err, 1205)
	return err
}

// deadlock loses one against a transaction that has changed more.
func deadlock(t *testing.T, g *testDB, tx *sql.Tx) error {
	t.Helper()
	other, err := g.bare.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = other.Rollback() }()
	_, err = other.ExecContext(t.Context(), "INSERT INTO taken SELECT 100 + seq FROM "+sequence(100))
	must(t, err)
	_, err = other.ExecContext(t.Context(), "DELETE FROM taken WHERE id = 1")
	must(t, err)
	_, err = tx.ExecContext(t.Context(), "DELETE FROM taken WHERE id = 2")
	must(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := tx.ExecContext(context.Background(), "DELETE FROM taken WHERE id = 1")
		ended <- err
	}()
	_, err = other.ExecContext(t.Context(), "DELETE FROM taken WHERE id = 2")
	must(t, err)
	err = <-ended
	wantNumber(t, err, 1213)
	return err
}

func wantNumber(t *testing.T, err error, want int) {
	t.Helper()
	if code, _ := sqlguard.MySQLCode(err); code != want {
		t.Errorf("error %v, want number %d", err, want)
	}
}

// TestSwallowedErrorInnoDB: a bare server undoes one statement and goes on, or
// everything, and then runs what follows by itself.
func TestSwallowedErrorInnoDB(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onInnoDB(t, func(t *testing.T, on innodb) {
		for _, m := range []misuse{
			{"constraint (1062)", execs("INSERT INTO taken VALUES (1)"), 1, 1},
			{"lock wait (1205)", lockedRow, 1, 1},
			{"deadlock (1213)", deadlock, 0, 1}, // the effect without its key
			{"several rows (1242)", execs("SELECT (SELECT id FROM taken)"), 1, 1},
			{"data too long (1406)", execs("INSERT INTO once_key VALUES (99999999999)"), 1, 1},
			{"no such table", execs("SELECT * FROM nowhere"), 1, 1},
			{"SIGNAL", execs("SIGNAL SQLSTATE '45000'"), 1, 1},
			{"no such savepoint", execs("ROLLBACK TO nowhere"), 1, 1},
			{"error after some rows", reads("SELECT (SELECT id FROM taken WHERE id < seq) FROM " + sequence(9)), 1, 1},
			{"error behind the only row read", func(t *testing.T, _ *testDB, tx *sql.Tx) error {
				t.Helper()
				var n *int
				return tx.QueryRowContext(t.Context(), "SELECT (SELECT id FROM taken WHERE id < seq) FROM "+sequence(9)).Scan(&n)
			}, 1, 1},
			{"second of several statements", execs("SELECT 1; INSERT INTO taken VALUES (1); SELECT 2"), 1, 1},
			{"prepare", func(t *testing.T, _ *testDB, tx *sql.Tx) error {
				t.Helper()
				_, err := tx.PrepareContext(t.Context(), "SELECT nothing")
				return err
			}, 1, 1},
			{"number of arguments", execs("INSERT INTO effect VALUES (?)", 1, 2), 1, 1},
			{"argument of no known type", execs("INSERT INTO effect VALUES (?)", make(chan int)), 1, 1},
			{"statement timeout", execs(on.within20ms), 1, 1},
			{"deadline", deadline("SELECT SLEEP(2)"), 0, 0},
			{"deadline between rows", halfRead("SELECT REPEAT('x', 10000), SLEEP(0.001) FROM (SELECT 1 UNION SELECT 2) AS twice, " + sequence(1000)), 0, 0},
			{"COMMIT by hand", execs("/* x */ /*!COMMIT*/"), 1, 1},
			{"COMMIT in a batch", execs("SELECT 1; SELECT ';'; COMMIT; SELECT 2"), 1, 1},
			{"killed", func(t *testing.T, g *testDB, tx *sql.Tx) error {
				t.Helper()
				g.killConnectionOf(t, tx)
				_, err := tx.ExecContext(t.Context(), "SELECT 1")
				return err
			}, 0, 0},
		} {
			t.Run(m.name, func(t *testing.T) { t.Parallel(); swallow(t, on.open, m) })
		}
	})
}

func (g *testDB) killConnectionOf(t *testing.T, tx *sql.Tx) {
	t.Helper()
	var id int
	must(t, tx.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	_, err := g.bare.ExecContext(t.Context(), "KILL CONNECTION ?", id)
	must(t, err)
	for there := true; there; { // it is told, and goes when it has noticed
		must(t, g.bare.QueryRowContext(t.Context(), "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE id = ?", id).Scan(&there))
	}
}

// TestImplicitCommit: after what commits by itself, a bare ROLLBACK undoes nothing.
func TestImplicitCommit(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onInnoDB(t, func(t *testing.T, on innodb) {
		statements := []string{
			"CREATE TABLE made (id int)", "create or replace view v as select 1", "DROP TABLE IF EXISTS nowhere", "ALTER TABLE taken ADD COLUMN n int",
			"TRUNCATE TABLE taken", "RENAME TABLE taken TO took", "ANALYZE TABLE taken", "OPTIMIZE TABLE taken", "CREATE INDEX i ON effect (id)",
			"LOCK TABLES effect WRITE, once_key WRITE", "FLUSH TABLES", "GRANT SELECT ON *.* TO CURRENT_USER", "SET PASSWORD = ''",
			"BEGIN", "START TRANSACTION", "COMMIT AND CHAIN", "SELECT 1; COMMIT", "SET @a = 1; commit",
		}
		if on.mysql {
			statements = append(statements, "ANALYZE TABLE taken UPDATE HISTOGRAM ON id", "CHECK TABLE taken", "IMPORT TABLE FROM 'nowhere.sdi'",
				"INSTALL COMPONENT 'file://nowhere'", "DROP RESOURCE GROUP nowhere", "DROP SPATIAL REFERENCE SYSTEM IF EXISTS 1000001",
				"STOP REPLICA", "START REPLICA", "RESET REPLICA", "ALTER INSTANCE RELOAD TLS", "/*!80000 COMMIT */", "DROP ROLE IF EXISTS nobody")
		} else {
			statements = append(statements, "BEGIN NOT ATOMIC COMMIT; END", "IF 1 THEN COMMIT; END IF", "SET STATEMENT max_statement_time = 1 FOR COMMIT", "/*M!100000 COMMIT */")
		}
		for _, statement := range statements {
			t.Run(statement, func(t *testing.T) {
				t.Parallel()
				g := on.open(t)
				if len(g.rolledBackAfter(t, g.bare, nil, statement)) == 0 {
					t.Errorf("without the guard nothing is left: the statement does not commit")
				}
				g.run(t, "DELETE FROM once_key")
				var refused *sqlguard.StatementError
				txn := new(sqlguard.Txn)
				if left := g.rolledBackAfter(t, g.guarded, txn, statement); len(left) != 0 || !errors.As(txn.Err(), &refused) {
					t.Errorf("%v left, %v", left, txn.Err())
				}
			})
		}
		t.Run("SET autocommit", func(t *testing.T) { // matters where it was off
			t.Parallel()
			g := on.open(t)
			tx, txn := g.begin(t)
			if _, err := tx.ExecContext(t.Context(), "SET @a = 1, @@SESSION.autocommit = 1"); err == nil || txn.Err() == nil {
				t.Errorf("%v, %v", err, txn.Err())
			}
			if _, err := tx.ExecContext(t.Context(), "XA START 'x'"); err == nil {
				t.Error("accepted")
			}
			must(t, tx.Rollback())
			tx, txn = g.begin(t)
			if _, err := tx.ExecContext(t.Context(), "XA START 'x'"); err == nil || txn.Statements() != 0 {
				t.Errorf("%v, %d statements", err, txn.Statements())
			}
			must(t, tx.Rollback())
			g.leaves(t, 0, 0)
		})
	})
}

// rolledBackAfter returns the keys that are left when a transaction has written one, run
// a statement, and been rolled back.
func (g *testDB) rolledBackAfter(t *testing.T, db *sql.DB, txn *sqlguard.Txn, statement string) (left []int) {
	t.Helper()
	ctx := context.Background()
	if txn != nil {
		ctx = txn.Context(ctx)
	}
	c, err := db.Conn(ctx)
	must(t, err)
	defer c.Close()
	tx, err := c.BeginTx(ctx, nil)
	must(t, err)
	insert(t, tx, "once_key")
	_, _ = tx.ExecContext(t.Context(), statement)
	_ = tx.Rollback()
	_, err = c.ExecContext(t.Context(), "UNLOCK TABLES")
	must(t, err)
	rows, err := g.bare.QueryContext(t.Context(), "SELECT id FROM once_key")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int
		must(t, rows.Scan(&id))
		left = append(left, id)
	}
	must(t, rows.Err())
	return left
}

// TestCommitInAProcedure cannot be seen before it has happened. It is found out, also
// where another transaction has been begun.
func TestCommitInAProcedure(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onInnoDB(t, func(t *testing.T, on innodb) {
		for _, body := range []string{"COMMIT", "BEGIN COMMIT; START TRANSACTION; END", "ROLLBACK"} {
			for _, commit := range []bool{true, false} {
				t.Run(strings.TrimSpace(body), func(t *testing.T) {
					t.Parallel()
					g := on.open(t)
					g.run(t, "CREATE PROCEDURE ends() "+body)
					bare, err := g.bare.BeginTx(t.Context(), nil)
					must(t, err)
					_, err = bare.ExecContext(t.Context(), "CALL ends()")
					must(t, err)
					must(t, bare.Commit()) // says that all is well

					tx, _ := g.begin(t)
					insert(t, tx, "once_key")
					_, err = tx.ExecContext(t.Context(), "CALL ends()")
					must(t, err)
					if commit {
						err = tx.Commit()
						failed(t, err, true)
					} else {
						err = tx.Rollback()
					}
					if !errors.Is(err, sqlguard.ErrEnded) {
						t.Error(err)
					}
					keys := 1
					if body == "ROLLBACK" {
						keys = 0
					}
					g.leaves(t, keys, 0)
				})
			}
		}
	})
}

// TestDeadlockTakesTheSavepoint: the transaction is gone, and its savepoints with it.
func TestDeadlockTakesTheSavepoint(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onInnoDB(t, func(t *testing.T, on innodb) {
		g := on.open(t)
		tx, txn := g.begin(t)
		insert(t, tx, "once_key")
		_, err := tx.ExecContext(t.Context(), "SAVEPOINT a")
		must(t, err)
		_ = deadlock(t, g, tx)
		_, err = tx.ExecContext(t.Context(), "ROLLBACK TO a")
		wantNumber(t, err, 1305)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO effect VALUES (1)")
		var refused *sqlguard.RefusedError
		if !errors.As(err, &refused) || txn.Err() == nil {
			t.Errorf("healed by a savepoint that is gone: %v", err)
		}
		err = tx.Commit()
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "DELETE FROM taken WHERE id = 1") || !strings.Contains(err.Error(), "Deadlock") {
			t.Errorf("Commit() = %v, want it to name the statement that failed first", err)
		}
		g.leaves(t, 0, 0)
	})
}

// TestLostAnswerInnoDB: the two cases that look alike to the client, and the death of
// the session before.
func TestLostAnswerInnoDB(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onInnoDB(t, func(t *testing.T, on innodb) {
		for name, tt := range map[string]struct {
			fault faultnet.Fault
			left  int
		}{
			"applied":     {faultnet.SwallowAnswer(on.commit, ""), 1},
			"not applied": {faultnet.CutBefore(on.commit), 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				proxy, err := faultnet.Listen(on.server(t).Addr())
				must(t, err)
				t.Cleanup(func() { must(t, proxy.Close()) })
				g := newTestDB(t, sqlguard.MySQL, mysqlConnector(t, on.created(t), proxy))
				tx, _ := g.begin(t)
				insert(t, tx, "once_key")
				insert(t, tx, "effect")
				trigger := proxy.Arm(tt.fault)
				err = tx.Commit()
				<-trigger.Done()
				proxy.Disarm()
				failed(t, err, true)
				g.leaves(t, tt.left, tt.left)
			})
		}
		t.Run("killed before", func(t *testing.T) {
			t.Parallel()
			g := on.open(t)
			tx, _ := g.begin(t)
			insert(t, tx, "once_key")
			g.killConnectionOf(t, tx)
			commitFails(t, g, tx, true)
		})
	})
}

// TestCancelledInCommitInnoDB: a COMMIT that is on its way is not cut short, and the
// connection is kept. Commits wait as they do for a backup, on a server of its own.
func TestCancelledInCommitInnoDB(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onInnoDB(t, func(t *testing.T, on innodb) {
		on.server(t) // or it skips
		server, err := testenv.StartMariaDB(t.Context(), testenv.MariaDBConfig{MySQL: on.mysql})
		must(t, err)
		t.Cleanup(func() { must(t, server.Close()) })
		must(t, server.CreateDatabase("once"))
		g := newTestDB(t, sqlguard.MySQL, mysqlConnector(t, server.DSN("once"), nil))
		g.guarded.SetMaxOpenConns(1)
		holder, err := g.bare.Conn(t.Context())
		must(t, err)
		defer holder.Close()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tx, err := g.guarded.BeginTx(new(sqlguard.Txn).Context(ctx), nil)
		must(t, err)
		var before, after int
		must(t, tx.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&before))
		insert(t, tx, "once_key")
		insert(t, tx, "effect")
		block, release, state := []string{"BACKUP STAGE START", "BACKUP STAGE FLUSH", "BACKUP STAGE BLOCK_DDL", "BACKUP STAGE BLOCK_COMMIT"}, "BACKUP STAGE END", "%backup%"
		if on.mysql {
			block, release, state = []string{"FLUSH TABLES WITH READ LOCK"}, "UNLOCK TABLES", "%commit lock%"
		}
		for _, statement := range block {
			_, err := holder.ExecContext(t.Context(), statement)
			must(t, err)
		}
		committed := make(chan error)
		go func() { committed <- tx.Commit() }()
		for waiting := false; !waiting; {
			must(t, g.bare.QueryRowContext(t.Context(),
				"SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE id = ? AND state LIKE ?", before, state).Scan(&waiting))
		}
		cancel()
		_, err = holder.ExecContext(t.Context(), release)
		must(t, err)
		must(t, <-committed)
		must(t, g.guarded.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&after))
		if before != after {
			t.Error("the connection was lost")
		}
		g.leaves(t, 1, 1)
	})
}
