package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// childPlan is what a consumer process does: it delivers messages to an inbox, and prints what it acknowledges.
type childPlan struct {
	Database harness.Database
	Consumer string
	Order    inbox.Order
	Batch    int
	Messages []message.Message
	At       int            // the point at which it sends itself the signal; 0: never
	Signal   syscall.Signal // SIGKILL or SIGSTOP
}

// CarryOut implements harness.Plan.
func (p childPlan) CarryOut(ctx context.Context) error {
	return p.Database.Use(ctx,
		func(s harness.Store[pgx.Tx]) error { return consume(ctx, p, s) },
		func(s harness.Store[*sql.Tx]) error { return consume(ctx, p, s) })
}

func consume[TX any](ctx context.Context, p childPlan, s harness.Store[TX]) error {
	var points atomic.Int64
	s = &pointStore[TX]{Store: s, at: func(string) error {
		if int(points.Add(1)) == p.At {
			if p.Signal == syscall.SIGSTOP {
				fmt.Println("stop")
				return harness.Stop()
			}
			_ = syscall.Kill(os.Getpid(), p.Signal)
		}
		return nil
	}}
	g := &fixture[TX]{store: s, engine: once.New[TX](s, once.Config{Observer: once.Discard})}
	in, _ := g.inboxOn(g.engine, inbox.Config{Consumer: p.Consumer, Order: p.Order, Timeouts: patient})
	return deliver(ctx, &broker{unacked: p.Messages, batch: p.Batch, acked: func(id string) { fmt.Println("ack", id) }}, in, g.book)
}

// patient bounds how long others wait for a process that is stopped.
var patient = store.Timeouts{Acquire: time.Minute, Lock: time.Second, Idle: 5 * time.Second}

// consumed runs a consumer process to its end, and returns what it has acknowledged and whether it was killed.
func (p childPlan) consumed(t *testing.T) (acked []string, killed bool) {
	t.Helper()
	lines, killed := harness.Start(t, p).End(t)
	for _, line := range lines {
		acked = append(acked, strings.TrimPrefix(line, "ack "))
	}
	return acked, killed
}

// killScenario is a scenario without broken messages.
func killScenario() []message.Message {
	return []message.Message{ordered("a", 2), event("x"), ordered("a", 1), event("y"), ordered("a", 3), event("x")}
}

// TestConsumerKilled: a process is killed at its N-th point, N = 1, 2, ... until it survives. Its successor gets what was not
// acknowledged. Each message is applied once, and in order.
func TestConsumerKilled(t *testing.T) {
	testenv.Core(t)
	t.Run(harness.Pgx, func(t *testing.T) {
		t.Parallel()
		d := migrated(t, harness.Pgx)
		testConsumerKilled(t, openPgx(t, d), d)
	})
	t.Run(harness.SQLite, func(t *testing.T) {
		t.Parallel()
		d := migrated(t, harness.SQLite)
		testConsumerKilled(t, openSQL(t, d), d)
	})
}

func testConsumerKilled[TX any](t *testing.T, g *fixture[TX], d harness.Database) {
	for _, batch := range []int{1, 10} {
		t.Run(fmt.Sprint("batch ", batch), func(t *testing.T) {
			testenv.Sample(t, 2)
			harness.Loop(t, 15, func(at int) bool {
				g.exec(t, "delete from effect")
				p := childPlan{Database: d, Consumer: fmt.Sprint("killed ", batch, at), Order: inbox.InOrder, Batch: batch, Messages: killScenario(), At: at, Signal: syscall.SIGKILL}
				acked, struck := p.consumed(t)
				p.Messages = slices.DeleteFunc(killScenario(), func(m message.Message) bool { return slices.Contains(acked, m.ID) })
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
				return struck
			})
		})
	}
}

// TestConsumerStopped: a process is stopped in the middle of a transaction for longer than its transaction may be idle. Another one
// applies its messages. When it goes on, it applies nothing twice.
func TestConsumerStopped(t *testing.T) {
	testenv.Core(t)
	d := migrated(t, harness.Pgx)
	g := openPgx(t, d)
	stops := 0
	for _, at := range []int{4, 7, 9, 13} { // points within transactions: statements and the commit
		g.exec(t, "delete from effect")
		p := childPlan{Database: d, Consumer: fmt.Sprint("stopped ", at), Order: inbox.InOrder, Batch: 10, Messages: killScenario(), At: at, Signal: syscall.SIGSTOP}
		c := harness.Start(t, p)
		stopped := c.Wait("stop")
		if stopped {
			c.UntilStopped(t)
		}
		p.Batch, p.At = 1, 0
		_, _ = p.consumed(t)
		c.Signal(syscall.SIGCONT)
		if _, killed := c.End(t); killed {
			t.Errorf("stopped at point %d, it was killed", at)
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
