package hold

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

// databaseForWork makes a database with a table of work.
func databaseForWork(tb testing.TB, kind string, parts int) (sqlplane.Database, harness.Database) {
	tb.Helper()
	db, d := newDB(tb, kind)
	create := func(query string, args ...any) { run(tb, db.Pool(), statement(db, query, args...)) }
	create("create table job (part integer primary key, fence bigint, node varchar(100), n bigint, wrong bigint)")
	for p := range parts {
		create("insert into job (part, fence, node, n, wrong) values (?, 0, '', 0, 0)", p)
	}
	return db, d
}

// workers are the nodes that did the last unit of work on each part, and how often.
func workers(tb testing.TB, db sqlplane.Database) (counts map[string]int) {
	tb.Helper()
	counts = map[string]int{}
	must(tb, db.Pool().Query(tb.Context(), statement(db, "select node, count(*) from job group by node"), func(r sqlplane.Row) error {
		var node string
		var n int
		err := r.Scan(&node, &n)
		counts[node] = n
		return err
	}))
	return counts
}

// wrongs is how many units of work were done by a former holder.
func wrongs(tb testing.TB, db sqlplane.Database) int {
	tb.Helper()
	return harness.Count(tb, db, "select sum(wrong) from job")
}

// TestProcessesKilledStoppedAndDrained: of processes that hold parts, with different TTLs, one is killed, one is stopped and goes on, one drains. The
// others take over what they held and share it evenly. The one that was stopped changes nothing
// with its old fences, and holds parts again.
func TestProcessesKilledStoppedAndDrained(t *testing.T) {
	testenv.Core(t)
	on(t, func(t *testing.T, name string) {
		const parts = 8
		db, d := databaseForWork(t, name, parts)
		var children []*harness.Child
		node := func(i int) string { return fmt.Sprint("child-", i) }
		add := func() {
			n := len(children)
			children = append(children, harness.Start(t, plan{Database: d, Node: node(n), Parts: parts, TTL: time.Duration(3+2*(n%2)) * ttl}))
		}
		working := func(want ...int) { // these children share the work
			t.Helper()
			harness.Until(t, func() error {
				got := workers(t, db)
				for _, i := range want {
					if n := got[node(i)]; n < parts/len(want) || n > (parts+len(want)-1)/len(want) {
						return fmt.Errorf("%v have done the work, want it spread evenly over children %v", got, want)
					}
				}
				return nil
			})
		}
		for range 3 {
			add()
		}
		working(0, 1, 2)
		children[0].Kill()
		working(1, 2)
		children[1].Signal(syscall.SIGUSR1)
		if !children[1].UntilStopped(t) {
			t.Fatal("a process that is told to stop has ended")
		}
		working(2)
		children[1].Signal(syscall.SIGCONT)
		said := <-children[1].Lines()
		if !strings.HasPrefix(said, "applied 0 of ") || strings.HasSuffix(said, " 0") {
			t.Errorf("with the fences that it had when it was stopped: %s", said)
		}
		working(1, 2)
		children[2].Drain(t)
		working(1)
		if n := wrongs(t, db); n > 0 {
			t.Errorf("%d units of work were done by a former holder", n)
		}
		children[1].Drain(t)
	})
}
