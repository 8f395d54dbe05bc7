package inbox

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// childEnv makes this binary a consumer: it holds a childPlan.
const childEnv = "ONCE_TORTURE_INBOX"

// childPlan is what a consumer process does: it delivers messages to an inbox, and prints what it acknowledges.
type childPlan struct {
	Driver, DSN string // of package sqlstore; Driver "": pgxstore
	Consumer    string
	Order       inbox.Order
	Batch       int
	Messages    []inbox.Message
	At          int64          // the point at which it sends itself the signal; 0: never
	Signal      syscall.Signal // SIGKILL or SIGSTOP
}

func beConsumer(text string) int {
	var p childPlan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (p childPlan) run(ctx context.Context) error {
	if p.Driver == "" {
		pool, err := pgxpool.New(ctx, p.DSN)
		if err != nil {
			return err
		}
		defer pool.Close()
		return consume[pgx.Tx](ctx, p, pgxstore.New(pool, pgxstore.Config{}))
	}
	db, err := sqlstore.Open(p.Driver, p.DSN)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return err
	}
	return consume[*sql.Tx](ctx, p, s)
}

func consume[TX any](ctx context.Context, p childPlan, s sqlStore[TX]) error {
	var points atomic.Int64
	s = &pointStore[TX]{sqlStore: s, at: func(string) error {
		if points.Add(1) == p.At {
			if p.Signal == syscall.SIGSTOP {
				fmt.Println("stop")
			}
			_ = syscall.Kill(os.Getpid(), p.Signal)
		}
		return nil
	}}
	g := &ground[TX]{store: s, engine: once.New[TX](s, once.Config{Observer: once.Discard})}
	in, _ := g.inboxOn(g.engine, inbox.Config{Consumer: p.Consumer, Order: p.Order, Timeouts: patient})
	return deliver(ctx, &broker{unacked: p.Messages, batch: p.Batch, acked: func(id string) { fmt.Println("ack", id) }}, in, g.book)
}

// patient bounds how long others wait for a process that is stopped.
var patient = store.Timeouts{Acquire: time.Minute, Lock: time.Second, Idle: 5 * time.Second}

// start starts a consumer process.
func (p childPlan) start(t *testing.T) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	text, err := json.Marshal(p)
	must(t, err)
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// consumed runs a consumer process to its end, and returns what it has acknowledged and whether it was killed.
func (p childPlan) consumed(t *testing.T) (acked []string, killed bool) {
	t.Helper()
	cmd, lines := p.start(t)
	for lines.Scan() {
		acked = append(acked, strings.TrimPrefix(lines.Text(), "ack "))
	}
	err := cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if killed = status.Signaled(); err != nil && !killed {
		t.Fatalf("point %d: %v", p.At, err)
	}
	return acked, killed
}

// killScenario is a scenario without broken messages.
func killScenario() []inbox.Message {
	return []inbox.Message{ordered("a", 2), message("x"), ordered("a", 1), message("y"), ordered("a", 3), message("x")}
}

// TestConsumerKilled: a process is killed at its N-th point, N = 1, 2, ... until it survives. Its successor gets what was not
// acknowledged. Each message is applied once, and in order.
func TestConsumerKilled(t *testing.T) {
	testenv.Core(t)
	t.Run("pgxstore", func(t *testing.T) {
		t.Parallel()
		dsn := testenv.NewDatabase(t)
		pool, err := pgxpool.New(t.Context(), dsn)
		must(t, err)
		t.Cleanup(pool.Close)
		must(t, pgxstore.Migrate(t.Context(), pool, migrations...))
		_, err = pool.Exec(t.Context(), effects)
		must(t, err)
		testConsumerKilled(t, groundOn[pgx.Tx]("pgxstore", pgxstore.New(pool, pgxstore.Config{})), childPlan{DSN: dsn})
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		dsn := sqliteDSN(filepath.Join(t.TempDir(), "test.db"))
		db, err := sqlstore.Open("sqlite", dsn)
		must(t, err)
		testConsumerKilled(t, newSQLOn(t, "SQLite", db, sqlstore.Config{}), childPlan{Driver: "sqlite", DSN: dsn})
	})
}

func testConsumerKilled[TX any](t *testing.T, g *ground[TX], p childPlan) {
	for _, batch := range []int{1, 10} {
		t.Run(fmt.Sprint("batch ", batch), func(t *testing.T) {
			testenv.Sample(t, 2)
			kills := 0
			for at := int64(1); !t.Failed(); at++ {
				g.exec(t, "delete from effect")
				p.Consumer, p.Order, p.Batch = fmt.Sprint("killed ", batch, at), inbox.InOrder, batch
				p.Messages, p.At, p.Signal = killScenario(), at, syscall.SIGKILL
				acked, killed := p.consumed(t)
				p.Messages = slices.DeleteFunc(killScenario(), func(m inbox.Message) bool { return slices.Contains(acked, m.ID) })
				p.At = 0
				if _, killed := p.consumed(t); killed {
					t.Error("the successor was killed")
				}
				in, _ := g.inbox(t, inbox.Config{Consumer: p.Consumer, Order: inbox.InOrder})
				run(t, in, g.book, func() bool { return g.count(t, "select count(*) from once_inbox_parked") == 0 })
				if got := g.booked(t); !slices.Equal(got, []string{"a-1", "a-2", "a-3", "x", "y"}) {
					t.Errorf("killed at point %d after %q: applied were %q", at, acked, got)
				}
				g.exec(t, "delete from effect where k = ''")
				g.wantOnce(t, []string{"a"}, 3)
				_ = g.parked(t) // and what positions count is true
				if !killed {
					break
				}
				kills++
			}
			if kills < 15 {
				t.Errorf("vacuous: killed %d times", kills)
			}
		})
	}
}

// TestConsumerStopped: a process is stopped in the middle of a transaction for longer than its transaction may be idle. Another one
// applies its messages. When it goes on, it applies nothing twice.
func TestConsumerStopped(t *testing.T) {
	testenv.Core(t)
	dsn := testenv.NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, pgxstore.Migrate(t.Context(), pool, migrations...))
	_, err = pool.Exec(t.Context(), effects)
	must(t, err)
	g := groundOn[pgx.Tx]("pgxstore", pgxstore.New(pool, pgxstore.Config{}))
	stops := 0
	for _, at := range []int64{4, 7, 9, 13} { // points within transactions: statements and the commit
		g.exec(t, "delete from effect")
		p := childPlan{DSN: dsn, Consumer: fmt.Sprint("stopped ", at), Order: inbox.InOrder, Batch: 10, Messages: killScenario(), At: at, Signal: syscall.SIGSTOP}
		cmd, lines := p.start(t)
		stopped := false
		for !stopped && lines.Scan() {
			stopped = lines.Text() == "stop"
		}
		p.Batch, p.At = 1, 0
		_, _ = p.consumed(t)
		must(t, cmd.Process.Signal(syscall.SIGCONT))
		for lines.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopped at point %d: %v", at, err)
		}
		in, _ := g.inbox(t, inbox.Config{Consumer: p.Consumer, Order: inbox.InOrder})
		run(t, in, g.book, func() bool { return g.count(t, "select count(*) from once_inbox_parked") == 0 })
		if got := g.booked(t); !slices.Equal(got, []string{"a-1", "a-2", "a-3", "x", "y"}) {
			t.Errorf("stopped at point %d: applied were %q", at, got)
		}
		if stopped {
			stops++
		}
	}
	if stops < 3 {
		t.Errorf("vacuous: stopped %d times", stops)
	}
}
