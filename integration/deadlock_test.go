package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestNoDeadlocks sends 16 duplicates of every key, 1,000 at its own level, to a server, with no coalescing on
// their way, half of the time with a first execution that is rolled back. The server
// counts its deadlocks.
func TestNoDeadlocks(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range innodbStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, name)
			noDeadlocks(t, serverTestDB(t, name, startInnoDB(t, name, testenv.MariaDBConfig{}).DSN("mysql")))
		})
	}
}

func noDeadlocks(t *testing.T, g *testDB) {
	t.Run("the hazard", func(t *testing.T) { waitingForTheRow(t, g) })
	for _, l := range append([]level{{name: "default"}}, levels...) {
		t.Run(l.name, func(t *testing.T) {
			before := deadlocks(t, g)
			keys := 1000
			if l.is != store.DefaultIsolation {
				keys = scale(100, keys)
			}
			storming := &crowd{g: g, level: l, keys: keys}
			storming.run(t)
			if n := deadlocks(t, g) - before; n != 0 {
				t.Errorf("%d deadlocks. %s", n, rerun(t))
			}
		})
	}
}

func deadlocks(t *testing.T, g *testDB) int {
	t.Helper()
	if g.Kind == harness.MySQL {
		return g.count(t, "select count from information_schema.innodb_metrics where name = 'lock_deadlocks'")
	}
	return status(t, g, "Innodb_deadlocks")
}

func status(t *testing.T, g *testDB, name string) (n int) {
	t.Helper()
	if err := g.db.QueryRowContext(t.Context(), "show global status like '"+name+"'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// waitingForTheRow shows what becomes of those who wait for a row to be inserted: when it
// vanishes, they deadlock.
func waitingForTheRow(t *testing.T, g *testDB) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const insert = "insert into once_operation (scope, `key`, since) values ('hazard', 'k', 0)"
	begun := func() *sql.Tx {
		tx, err := g.db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	before := deadlocks(t, g)
	holder := begun()
	defer func() { _ = holder.Rollback() }()
	if _, err := holder.ExecContext(ctx, insert); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		tx := begun()
		group.Go(func() {
			defer func() { _ = tx.Rollback() }()
			_, _ = tx.ExecContext(ctx, insert)
		})
	}
	for status(t, g, "Innodb_row_lock_current_waits") < 8 { // the server sends no signal when it waits
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if deadlocks(t, g) == before {
		t.Error("no deadlock: the server is not the one that the claims are made for")
	}
}

// crowd is a storm of duplicates on one server.
type crowd struct {
	g     *testDB
	level level
	keys  int

	inFlight, replayed, undone, conflicts atomic.Int64
}

// Observe implements once.Observer.
func (d *crowd) Observe(_ context.Context, e once.Event) {
	if e.Type == once.EventRerun {
		d.conflicts.Add(1)
	}
}

func (d *crowd) run(t *testing.T) {
	const callers = 16
	ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
	defer cancel()
	start := time.Now()
	var engines [callers]system
	s := d.g.open(t, setup{conns: callers, engine: once.Config{Observer: d}})
	for i := range engines {
		engines[i] = s.Another()
	}
	for n := range d.keys {
		op := operation(fmt.Sprintf("duplicates-%d-%d", d.level.is, n))
		op.Isolation, op.Attempt.Number = d.level.is, n%3
		if n%4 == 1 { // what has expired is replaced
			if _, err := d.g.db.ExecContext(ctx, "insert into once_operation (scope, `key`, state, since, expires_at) values (?, ?, 2, 0, 1)", op.Scope, op.Key); err != nil {
				t.Fatal(err)
			}
		}
		var fails atomic.Bool
		fails.Store(n%2 == 0)
		var group sync.WaitGroup
		for i := range engines {
			group.Go(func() {
				if err := d.ask(ctx, engines[i], op, &fails); err != nil {
					t.Errorf("key %d: %v. %s", n, err, rerun(t))
				}
			})
		}
		group.Wait()
		got, err := d.g.state(ctx, op.Key)
		if want := executed(got.Attempts); err != nil || got != want || got.Attempts != "once" {
			t.Fatalf("key %d: the database has %+v, %v. %s", n, got, err, rerun(t))
		}
	}
	testenv.Reportf(t, "%d keys in %v: %d replays, %d in flight, %d undone, %d run again", d.keys, time.Since(start).Round(time.Millisecond),
		d.replayed.Load(), d.inFlight.Load(), d.undone.Load(), d.conflicts.Load())
	if d.replayed.Load() != int64(d.keys*(callers-1)) || d.inFlight.Load() == 0 || d.undone.Load() != int64(d.keys+1)/2 {
		t.Errorf("this is not what the storm should have met. %s", rerun(t))
	}
}

var errUndone = errors.New("undone")

// ask asks until it has the answer.
func (d *crowd) ask(ctx context.Context, s system, op once.Operation, fails *atomic.Bool) error {
	for {
		var inside error
		_, again, err := s.Do(ctx, op, work{key: op.Key, attempt: "once", spoil: func() error {
			if inside == nil && fails.CompareAndSwap(true, false) {
				d.undone.Add(1)
				inside = errUndone
				return inside
			}
			return nil
		}})
		switch {
		case inside != nil && errors.Is(err, errUndone):
		case once.CodeOf(err) == once.CodeInFlight:
			d.inFlight.Add(1)
			op.Wait = patience
		case err != nil:
			return err
		default:
			if again {
				d.replayed.Add(1)
			}
			return nil
		}
	}
}
