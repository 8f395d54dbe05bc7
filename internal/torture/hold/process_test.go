package hold

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

// child is a process that holds parts.
type child struct {
	plan

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func startChild(tb testing.TB, p plan) *child {
	tb.Helper()
	self, err := os.Executable()
	must(tb, err)
	text, err := json.Marshal(p)
	must(tb, err)
	c := &child{plan: p, cmd: exec.CommandContext(tb.Context(), self)}
	c.cmd.Env = append(os.Environ(), planEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.stdin, err = c.cmd.StdinPipe()
	must(tb, err)
	stdout, err := c.cmd.StdoutPipe()
	must(tb, err)
	c.stdout = bufio.NewReader(stdout)
	must(tb, c.cmd.Start())
	tb.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) signal(tb testing.TB, s os.Signal) {
	tb.Helper()
	must(tb, c.cmd.Process.Signal(s))
}

// groundForWork makes a database with a table of work.
func groundForWork(tb testing.TB, name string, parts int) (db sqlplane.Database, dsn string) {
	tb.Helper()
	db, dsn = newDB(tb, name)
	create := func(query string, args ...any) { run(tb, db.Pool(), statement(db, query, args...)) }
	create("create table job (part integer primary key, fence bigint, node varchar(100), n bigint, wrong bigint)")
	for p := range parts {
		create("insert into job (part, fence, node, n, wrong) values (?, 0, '', 0, 0)", p)
	}
	return db, dsn
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
func wrongs(tb testing.TB, db sqlplane.Database) (n int) {
	tb.Helper()
	must(tb, db.Pool().Query(tb.Context(), statement(db, "select sum(wrong) from job"), func(r sqlplane.Row) error { return r.Scan(&n) }))
	return n
}

// TestProcesses: of processes that hold parts, with different TTLs, one is killed, one is stopped and goes on, one drains. The
// others take over what they held and share it evenly. The one that was stopped changes nothing
// with its old fences, and holds parts again.
func TestProcesses(t *testing.T) {
	testenv.Core(t)
	on(t, func(t *testing.T, name string) {
		const parts = 8
		db, dsn := groundForWork(t, name, parts)
		var children []*child
		add := func() {
			children = append(children, startChild(t, plan{Store: name, DSN: dsn, Node: fmt.Sprint("child-", len(children)), Parts: parts, TTL: time.Duration(3+2*(len(children)%2)) * ttl}))
		}
		working := func(want ...int) { // these children share the work
			t.Helper()
			until(t, func() error {
				got := workers(t, db)
				for _, i := range want {
					if n := got[children[i].Node]; n < parts/len(want) || n > (parts+len(want)-1)/len(want) {
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
		children[0].signal(t, os.Kill)
		working(1, 2)
		_, err := children[1].stdin.Write([]byte("stop\n"))
		must(t, err)
		working(2)
		children[1].signal(t, syscall.SIGCONT)
		said, err := children[1].stdout.ReadString('\n')
		must(t, err)
		if !strings.HasPrefix(said, "applied 0 of ") || strings.HasSuffix(said, " 0\n") {
			t.Errorf("with the fences that it had when it was stopped: %s", said)
		}
		working(1, 2)
		must(t, children[2].stdin.Close())
		must(t, children[2].cmd.Wait())
		working(1)
		if n := wrongs(t, db); n > 0 {
			t.Errorf("%d units of work were done by a former holder", n)
		}
		must(t, children[1].stdin.Close())
		must(t, children[1].cmd.Wait())
	})
}
