package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// TestSessionsAreLeftAsTheyWere, whatever a claim has met.
func TestSessionsAreLeftAsTheyWere(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		db.SetMaxOpenConns(2)
		ctx := t.Context()
		ask := store.BeginOptions{ID: store.ID{Scope: "session", Key: "k"}, Isolation: store.Serializable}
		holder, _, err := s.Begin(ctx, ask)
		if err != nil {
			t.Fatal(err)
		}
		var name string
		if err := db.QueryRowContext(ctx, "select database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		other, err := sql.Open("mysql", on.server(t).DSN(name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		uncommitted, err := other.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = uncommitted.Rollback() }()
		run(t, uncommitted, "insert into effect values ('uncommitted')")
		check := func(what string) {
			t.Helper()
			var seen int // a level for the next transaction alone would be gone after it
			if err := db.QueryRowContext(ctx, "select count(*) from effect").Scan(&seen); err != nil || seen != 0 {
				t.Errorf("%s: the next transaction sees %d uncommitted rows, %v", what, seen, err)
			}
			var wait, open int
			var level string
			inTransaction, locks := "@@in_transaction", "0"
			if on.mysql {
				inTransaction, locks = "(select count(*) from information_schema.innodb_trx where trx_mysql_thread_id = connection_id())", "release_all_locks()"
			}
			var left int
			if err := db.QueryRowContext(ctx, "select "+locks).Scan(&left); err != nil || left != 0 {
				t.Errorf("%s: %d locks are left, %v", what, left, err)
			}
			if err := db.QueryRowContext(ctx, "select @@innodb_lock_wait_timeout, "+inTransaction+", @@"+on.level).Scan(&wait, &open, &level); err != nil || wait != 50 || open != 0 || level != "REPEATABLE-READ" {
				t.Errorf("%s: lock wait %d, in a transaction %d, %s, %v", what, wait, open, level, err)
			}
		}
		if txn, rec, err := s.Begin(ctx, ask); txn != nil || rec.State != store.StateRunning || err != nil {
			t.Errorf("in flight: %+v, %v", rec, err)
		}
		check("in flight")
		if err := holder.Commit(ctx, store.Change{ID: ask.ID, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("c")}, Retain: time.Hour}); err != nil {
			t.Fatal(err)
		}
		check("committed")
		for _, first := range []bool{false, true} { // found by looking, found by its key
			ask.First = first
			if txn, rec, err := s.Begin(ctx, ask); txn != nil || rec.State != store.StateDone || err != nil {
				t.Errorf("done: %+v, %v", rec, err)
			}
			check("done")
		}
		ask.First, ask.ID.Key = false, strings.Repeat("k", 300) // no record of it can be written
		if txn, _, err := s.Begin(ctx, ask); err == nil {       // which is found out in the end
			if err := txn.Commit(ctx, store.Change{ID: ask.ID, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("c")}}); store.KindOf(err) != store.KindOther {
				t.Errorf("too long: %v", err)
			}
		} else {
			t.Errorf("too long: %v", err)
		}
		check("failed")
		if !on.mysql {
			return
		}
		// A join that is refused has the lock already.
		reader, err := sqlstore.Open("mysql", on.server(t).DSN(name)+"?transaction_read_only=1")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reader.Close() }()
		reads, err := sqlstore.New(ctx, reader, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			tx, err := reader.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			op := store.BeginOptions{ID: store.ID{Scope: "session", Key: "refused"}}
			if joined, _, err := reads.Join(ctx, tx, op); joined != nil || store.KindOf(err) != store.KindUnavailable {
				t.Errorf("%v, refused: %v", level, err)
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
			claimed, rec, err := s.Begin(ctx, op)
			if claimed == nil || err != nil {
				t.Errorf("%v, after a join that was refused: %+v, %v", level, rec, err)
				continue
			}
			if err := claimed.Rollback(ctx); err != nil {
				t.Error(err)
			}
		}
		check("refused")
	})
}

// TestAllLocks: a handler that releases all locks of its session would release the claim, too.
func TestAllLocks(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		e := once.New(s, once.Config{Runs: 1})
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "locks", Key: "k"}, func(ctx context.Context, tx *sql.Tx) (int, error) {
			if err := effect(ctx, tx, "released"); err != nil {
				return 0, err
			}
			_, err := tx.ExecContext(ctx, "do release_all_locks()")
			return 1, err
		})
		if err == nil || !strings.HasSuffix(err.Error(), "Try: RELEASE_LOCK with the name of your own lock") || once.EffectOf(err) != once.EffectNotApplied {
			t.Error(err)
		}
		if n := count(t, db, "select count(*) from effect"); n != 0 {
			t.Errorf("%d effects, want none", n)
		}
	})
}

// cutAnswers is MySQL's driver, which loses the answer to a query that contains a text.
type cutAnswers struct {
	driver.Connector
	to string
}

func (c cutAnswers) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return cutAnswersConn{conn.(mysqlConn), c.to}, nil
}

type cutAnswersConn struct {
	mysqlConn
	to string
}

func (c cutAnswersConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	if err != nil || !strings.Contains(query, c.to) {
		return rows, err
	}
	return nil, errors.Join(rows.Close(), &mysql.MySQLError{Number: 1317, Message: "Query execution was interrupted"})
}

// TestTimeoutsWithoutKey: work without a key has its Timeouts, too, and the session gets its own ones back.
func TestTimeoutsWithoutKey(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		db.SetMaxOpenConns(1)
		bounds, want := "select concat_ws(' ', @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@max_statement_time, @@idle_transaction_timeout)", "7 7 8.000000 9"
		if on.mysql {
			bounds, want = "select concat_ws(' ', @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@max_execution_time, @@wait_timeout)", "7 7 8000 9"
		}
		var before, within, after string
		e := once.New(s, once.Config{Observer: once.Discard})
		op := once.Operation{Timeouts: store.Timeouts{Lock: 7 * time.Second, Statement: 8 * time.Second, Idle: 9 * time.Second}}
		err1 := db.QueryRowContext(t.Context(), bounds).Scan(&before)
		_, _, err2 := e.Exec(t.Context(), op, func(ctx context.Context, tx *sql.Tx) (once.Answer, error) {
			return once.Answer{}, tx.QueryRowContext(ctx, bounds).Scan(&within)
		})
		err3 := db.QueryRowContext(t.Context(), bounds).Scan(&after)
		if err := errors.Join(err1, err2, err3); err != nil || within != want || after != before || before == want {
			t.Errorf("before %q, within %q, after %q, %v", before, within, after, err)
		}
	})
}
