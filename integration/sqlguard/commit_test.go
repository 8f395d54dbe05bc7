package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

// commitFails demands that COMMIT fails, in doubt or not, and leaves nothing.
func commitFails(t *testing.T, g *testDB, tx *sql.Tx, inDoubt bool) {
	t.Helper()
	failed(t, tx.Commit(), inDoubt)
	g.leaves(t, 0, 0)
}

// failed demands an error of COMMIT that is in doubt or not.
func failed(t *testing.T, err error, inDoubt bool) {
	t.Helper()
	var commit *sqlguard.CommitError
	if !errors.As(err, &commit) || commit.InDoubt != inDoubt {
		t.Errorf("Commit() = %v, want an error that is in doubt: %v", err, inDoubt)
	}
}

// TestDeferredConstraint: the database finds out only at COMMIT.
func TestDeferredConstraint(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	both(t, func(t *testing.T, g *testDB) {
		t.Helper()
		if g.dialect == sqlguard.MySQL {
			return // which checks at once
		}
		g.run(t, "CREATE TABLE child (id int REFERENCES taken (id) DEFERRABLE INITIALLY DEFERRED)")
		tx, _ := g.begin(t)
		insert(t, tx, "once_key")
		_, err := tx.ExecContext(t.Context(), "INSERT INTO child VALUES (99)")
		must(t, err)
		commitFails(t, g, tx, false)
	})
}

// TestBusyAtCommit: a reader keeps SQLite from committing. The transaction would
// stay open, and keep the file locked.
func TestBusyAtCommit(t *testing.T) {
	t.Parallel()
	g := liteAt(t, t.TempDir(), "delete", "&_pragma=busy_timeout(10)")
	reader, err := g.bare.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = reader.ExecContext(t.Context(), "SELECT * FROM taken")
	must(t, err)
	tx, _ := g.begin(t)
	insert(t, tx, "once_key")
	err = tx.Commit()
	must(t, reader.Rollback())
	failed(t, err, false)
	if code, _ := sqlguard.SQLiteCode(err); code&0xff != 5 {
		t.Errorf("code %d", code)
	}
	g.leaves(t, 0, 0)
}

// TestKilledBeforeCommit: the connection dies unseen.
func TestKilledBeforeCommit(t *testing.T) {
	t.Parallel()
	g := postgres(t)
	tx, _ := g.begin(t)
	insert(t, tx, "once_key")
	var pid int
	must(t, tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	var ok bool
	must(t, g.bare.QueryRowContext(t.Context(), "SELECT pg_terminate_backend($1, 60000)", pid).Scan(&ok))
	commitFails(t, g, tx, true)
}

// TestKilledInCommit: the server dies in the middle of it.
func TestKilledInCommit(t *testing.T) {
	t.Parallel()
	g := postgres(t)
	atCommit(t, g, "PERFORM pg_terminate_backend(pg_backend_pid())")
	tx, _ := g.begin(t)
	insert(t, tx, "once_key")
	err := tx.Commit()
	g.run(t, "DROP TRIGGER at_commit ON once_key")
	failed(t, err, true)
	if state := sqlguard.SQLState(err); state != "57P01" {
		t.Errorf("state %s", state)
	}
	g.leaves(t, 0, 0)
}

// atCommit has PostgreSQL do something at COMMIT.
func atCommit(t *testing.T, g *testDB, body string) {
	t.Helper()
	g.run(t, "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+body+"; RETURN NULL; END $$",
		"CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON once_key DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()")
}

// TestLostAnswer: the two cases that look alike to the client.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault faultnet.Fault
		left  int
	}{
		"applied":     {faultnet.SwallowAnswer("COMMIT", faultnet.PostgresIdle), 1},
		"not applied": {faultnet.CutBefore("COMMIT"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.SharedPostgres(t)
			url := testenv.NewDatabase(t)
			proxy, err := faultnet.Listen(server.Addr())
			must(t, err)
			t.Cleanup(func() { must(t, proxy.Close()) })
			through := newTestDB(t, sqlguard.PostgreSQL, connector(t, url, proxy))
			tx, _ := through.begin(t)
			insert(t, tx, "once_key")
			insert(t, tx, "effect")
			trigger := proxy.Arm(tt.fault)
			err = tx.Commit()
			<-trigger.Done()
			proxy.Disarm()
			failed(t, err, true)
			through.leaves(t, tt.left, tt.left)
		})
	}
}

// TestCancelledInCommit: a COMMIT that is on its way is not cut short, and the
// connection is kept.
func TestCancelledInCommit(t *testing.T) {
	t.Parallel()
	g := postgres(t)
	g.guarded.SetMaxOpenConns(1)
	atCommit(t, g, "PERFORM pg_advisory_xact_lock(7)")
	holder, err := g.bare.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = holder.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(7)")
	must(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := g.guarded.BeginTx(new(sqlguard.Txn).Context(ctx), nil)
	must(t, err)
	var before, after int
	must(t, tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&before))
	insert(t, tx, "once_key")
	insert(t, tx, "effect")
	committed := make(chan error)
	go func() { committed <- tx.Commit() }()
	for waiting := false; !waiting; {
		must(t, g.bare.QueryRowContext(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND locktype = 'advisory' AND NOT granted)", before).Scan(&waiting))
	}
	cancel()
	must(t, holder.Rollback())
	must(t, <-committed)
	must(t, g.guarded.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&after))
	if before != after {
		t.Error("the connection was lost")
	}
	g.leaves(t, 1, 1)
}

// TestCancelledTransaction: when the context of BeginTx ends, everything is
// rolled back, and the connection of PostgreSQL survives that.
func TestCancelledTransaction(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	both(t, func(t *testing.T, g *testDB) {
		t.Helper()
		g.guarded.SetMaxOpenConns(1)
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := g.guarded.BeginTx(new(sqlguard.Txn).Context(ctx), nil)
		must(t, err)
		insert(t, tx, "once_key")
		cancel()
		if err := tx.Commit(); !errors.Is(err, context.Canceled) && !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("Commit() = %v", err)
		}
		_, err = g.guarded.ExecContext(t.Context(), "SELECT 1") // waits for the ROLLBACK
		must(t, err)
		g.leaves(t, 0, 0)
	})
}

// TestBeginImmediate: SQLite's lock is taken at BEGIN, where waiting for it
// costs nothing, though the data source name says otherwise. A BEGIN that the
// caller gives up leaves nothing open.
func TestBeginImmediate(t *testing.T) {
	t.Parallel()
	g := lite(t, "&_pragma=busy_timeout(20)")
	g.guarded.SetMaxOpenConns(2)
	tx, _ := g.begin(t)
	other := new(sqlguard.Txn)
	_, err := g.guarded.BeginTx(other.Context(t.Context()), nil)
	if code, _ := sqlguard.SQLiteCode(err); code&0xff != 5 {
		t.Errorf("second BEGIN: %v", err)
	}
	readOnly, err := g.guarded.BeginTx(other.Context(t.Context()), &sql.TxOptions{ReadOnly: true})
	must(t, err) // as it does not want the lock
	must(t, readOnly.Commit())

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := g.guarded.BeginTx(new(sqlguard.Txn).Context(ctx), nil); err == nil {
		t.Error("BEGIN succeeded while another has the lock")
	}
	must(t, tx.Rollback())
	g.leaves(t, 0, 0)
}
