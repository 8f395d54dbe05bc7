package integration

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestNthRival has a second session lock, or change, what the operation wants, from the
// N-th statement on: the errors are the database's own.
func TestNthRival(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	for _, name := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, name)
			g := newTestDB(t, name)
			line := newToll(t, address(t, g.DSN), wireOf(name))
			r := newRival(t, g)
			n := newNth(t, g, line, setup{dsn: line.dsn(g.DSN)})
			for _, c := range courses[:2] {
				c.also = bothRows
				c.op = func(op *once.Operation) { op.Timeouts.Lock = brief }
				if !innodb(name) || long() || !c.swallows { // there a wait is a second long
					n.loop(fault{name: "locks"}, c, r.locks)
				}
				c.op = nil
				n.loop(fault{name: "deadlock"}, c, r.deadlock)
				if !innodb(name) {
					c.op = func(op *once.Operation) { op.Isolation = store.RepeatableRead }
					n.loop(fault{name: "changes"}, c, r.changes)
				}
			}
			if innodb(name) {
				n.report(16, "1205", "1213")
			} else {
				n.report(40, "55P03", "40P01", "40001")
			}
		})
	}
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(harness.SQLite+"-"+journal, func(t *testing.T) {
			t.Parallel()
			n := newNthSQLite(t, journal)
			r := &rival{g: n.g, T: t}
			for _, c := range courses[:scale(1, 3)] {
				if journal == "WAL" {
					n.loop(fault{name: "another one writes"}, c, r.writes)
				} else { // whose COMMIT needs the whole file
					n.loop(fault{name: "another one reads"}, c, r.reads)
				}
			}
			n.report(7, "SQLite 5")
		})
	}
}

// bothRows is what the rival wants, too.
func bothRows(ctx context.Context, exec execer) error {
	for _, id := range []string{"a", "b"} {
		if err := exec(ctx, updateShared, id); err != nil {
			return err
		}
	}
	return nil
}

const updateShared = "update shared set n = n + 1 where id = $1"

// rival is a second session.
type rival struct {
	*testing.T
	g *testDB
}

func newRival(t *testing.T, g *testDB) *rival {
	t.Helper()
	r := &rival{t, g}
	r.run(t.Context(), g.db, "create table shared (id varchar(10) primary key, n int not null)", "insert into shared values ('a', 0), ('b', 0), ('ballast', 0)")
	if !innodb(g.Kind) { // who notices first is who is rolled back
		r.run(t.Context(), g.db, "do $$ begin execute format('alter database %I set deadlock_timeout = ''10ms''', current_database()); end $$")
	}
	return r
}

func (r *rival) run(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string) {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			r.Errorf("the rival, %s: %v", statement, err)
		}
	}
}

func (r *rival) begin(ctx context.Context) *sql.Tx {
	tx, err := r.g.db.BeginTx(ctx, nil)
	if err != nil {
		r.Errorf("the rival: %v", err)
	}
	return tx
}

// get runs a statement that waits for no other, and reports whether that was not needed.
func (r *rival) get(ctx context.Context, tx *sql.Tx, statement string) bool {
	if innodb(r.g.Kind) {
		_, err := tx.ExecContext(ctx, statement)
		return err == nil
	}
	r.run(ctx, tx, "savepoint s")
	_, err := tx.ExecContext(ctx, statement)
	if err != nil {
		r.run(ctx, tx, "rollback to s")
	}
	return err == nil
}

const lockRow = "select id from shared where id = '%s' for update nowait"

// locks holds whatever can be had until the client has its answer.
func (r *rival) locks(ctx context.Context) (f fault, over func()) {
	var tx *sql.Tx
	return fault{name: "locks", meddle: func() {
		tx = r.begin(ctx)
		wants := []string{fmt.Sprintf(lockRow, "a"), fmt.Sprintf(lockRow, "b")}
		if !innodb(r.g.Kind) {
			wants = append(wants, "lock table entry in access exclusive mode nowait", "lock table once_operation in access exclusive mode nowait")
		}
		for _, want := range wants {
			_ = r.get(ctx, tx, want)
		}
	}}, func() { _ = tx.Rollback() }
}

// deadlock locks the second row and then wants the first one.
func (r *rival) deadlock(ctx context.Context) (f fault, over func()) {
	ended := make(chan error, 1)
	return fault{name: "deadlock", meddle: func() {
		tx := r.begin(ctx)
		pid := 0
		if innodb(r.g.Kind) {
			// The lighter one is rolled back: entries of the undo log weigh.
			for range 30 {
				r.run(ctx, tx, "update shared set n = n + 1 where id = 'ballast'")
			}
		} else {
			r.run(ctx, tx, "set local deadlock_timeout = '10min'")
			if err := tx.QueryRowContext(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
				r.Error(err)
			}
		}
		if !r.get(ctx, tx, fmt.Sprintf(lockRow, "b")) {
			ended <- tx.Rollback()
			return
		}
		has := make(chan struct{})
		go func() {
			_, err := tx.ExecContext(ctx, "select id from shared where id = 'a' for update")
			close(has)
			_ = tx.Rollback()
			ended <- err
		}()
		// A server that looks for a deadlock does so once.
		for waits := false; !waits && pid != 0; {
			select {
			case <-has:
				return
			default:
				_ = r.g.db.QueryRowContext(ctx, "select exists (select from pg_locks where not granted and pid = $1)", pid).Scan(&waits)
			}
		}
	}}, func() { <-ended }
}

// changes commits what the operation's snapshot does not have.
func (r *rival) changes(ctx context.Context) (f fault, over func()) {
	return fault{name: "changes", meddle: func() {
		tx := r.begin(ctx)
		if r.get(ctx, tx, fmt.Sprintf(lockRow, "b")) {
			r.run(ctx, tx, "update shared set n = n + 1 where id = 'b'")
		}
		if err := tx.Commit(); err != nil {
			r.Error(err)
		}
	}}, func() {}
}

// writes has the lock of the file, if it is free.
func (r *rival) writes(ctx context.Context) (f fault, over func()) {
	return r.file(ctx, "another one writes", "pragma busy_timeout = 0", "begin immediate")
}

// reads keeps a snapshot of the file, if it is free.
func (r *rival) reads(ctx context.Context) (f fault, over func()) {
	return r.file(ctx, "another one reads", "pragma busy_timeout = 0", "begin", "select count(*) from charge")
}

func (r *rival) file(ctx context.Context, name string, statements ...string) (f fault, over func()) {
	var conn *sql.Conn
	return fault{name: name, meddle: func() {
			var err error
			if conn, err = r.g.db.Conn(ctx); err != nil {
				r.Error(err)
				return
			}
			for _, statement := range statements {
				_, _ = conn.ExecContext(ctx, statement)
			}
		}}, func() {
			_, _ = conn.ExecContext(ctx, "rollback")
			_ = conn.Close()
		}
}
