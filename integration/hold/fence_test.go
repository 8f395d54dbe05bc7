package hold

import (
	"context"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestStillHeld: a statement that checks fences changes nothing of a part that another process has taken
// since, and a part cannot be taken while a statement that has found it held has not committed.
func TestStillHeld(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		pool := db.Pool()
		run(t, pool, statement(db, "create table job (part integer, id integer, primary key (part, id))"))
		for part := range 3 {
			run(t, pool, statement(db, "insert into once_hold (work, part, node, fence) values ('w', ?, 'a', 7)", part))
			run(t, pool, statement(db, "insert into once_hold (work, part, node, fence) values ('other', ?, 'a', 8)", part))
			for id := range 4 {
				run(t, pool, statement(db, "insert into job (part, id) values (?, ?)", part, id))
			}
		}
		held := []hold.Part{{Number: 2, Fence: 7}, {Number: 0, Fence: 7}}
		done := func(id int, parts []hold.Part) store.Statement {
			condition, args := hold.StillHeld(hold.Table, "w", "part", parts)
			return statement(db, "delete from job where id = ? and "+condition, append([]any{id}, args...)...)
		}
		take := statement(db, "update once_hold set node = 'b', fence = fence + 1 where work = 'w' and part = 2")
		if n := run(t, pool, done(0, held)); n != 2 {
			t.Errorf("%d rows are deleted while both parts are held, want 2", n)
		}
		if n := run(t, pool, done(1, nil)); n != 0 {
			t.Errorf("%d rows are deleted without a part", n)
		}

		taken := make(chan error, 1)
		within := func(fn func(r sqlplane.Runner)) {
			t.Helper()
			must(t, db.Within(t.Context(), store.DefaultIsolation, func(_ context.Context, r sqlplane.Runner) error { fn(r); return nil }))
		}
		within(func(r sqlplane.Runner) { // the check comes first: the part is taken after the commit
			if n := run(t, r, done(1, held)); n != 2 {
				t.Errorf("%d rows are deleted while both parts are held, want 2", n)
			}
			go func() { _, err := pool.Exec(t.Context(), take); taken <- err }()
			waits(t, db, r, taken)
		})
		must(t, <-taken)
		if n := run(t, pool, done(2, held)); n != 1 {
			t.Errorf("%d rows are deleted although one of two parts is taken, want 1", n)
		}

		deleted := make(chan int64, 1)
		failed := make(chan error, 1)
		within(func(r sqlplane.Runner) { // the part is taken first: the check waits, and does not pass
			run(t, r, statement(db, "update once_hold set node = 'b', fence = fence + 1 where work = 'w' and part = 0"))
			go func() {
				n, err := pool.Exec(t.Context(), done(3, held))
				deleted <- n
				failed <- err
			}()
			waits(t, db, r, failed)
		})
		if n, err := <-deleted, <-failed; n != 0 || err != nil {
			t.Errorf("%d rows are deleted after both parts were taken (%v)", n, err)
		}
	})
}

// waits returns when another statement waits for what the transaction of r has locked. It is an error
// if that statement ends.
func waits(t *testing.T, db sqlplane.Database, r sqlplane.Runner, ended <-chan error) {
	t.Helper()
	query := map[sqlplane.Dialect]string{
		sqlplane.PostgreSQL: "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
		sqlplane.MySQL:      "select count(*) from information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = database() and t.trx_state = 'LOCK WAIT'",
	}[db.Dialect()]
	for n := 0; n == 0 && query != ""; { // SQLite: a transaction that writes is alone
		select {
		case err := <-ended:
			t.Fatalf("the statement does not wait for the lock (%v)", err)
		case <-time.After(150 * time.Millisecond): // MariaDB tells nothing new to those that ask more often
		}
		must(t, r.Query(t.Context(), store.Statement{SQL: query}, func(row sqlplane.Row) error { return row.Scan(&n) }))
	}
}
