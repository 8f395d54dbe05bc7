package torture

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
)

// TestServerKill kills the database server inside of a commit: its backend dies as
// it enters the k-th system call after the handler has returned. The postmaster of
// PostgreSQL takes all others down and recovers, MariaDB is started again. The client
// lives on, and what it is told must be true.
func TestServerKill(t *testing.T) {
	testenv.Need(t, "postgresql", "mariadb", "strace")
	for _, store := range []string{pgxName, postgresName} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pg.Close() })
			serverKill(t, postgresGround(t, store, pg.URL("postgres")), mortal{
				backend: "select pid from pg_stat_activity where state = 'idle in transaction'",
				calls:   []string{"recvfrom", "pwrite64", "fdatasync", "sendto"},
				undertaker: func(ctx context.Context, killed <-chan bool) error {
					<-killed
					return pg.WaitReady(ctx)
				},
			})
		})
	}
	t.Run(mariadbName, func(t *testing.T) {
		t.Parallel()
		m := startMariaDB(t)
		serverKill(t, mariadbGround(t, m.DSN("mysql")), mortal{
			// The newest one is the client's. (What innodb_trx says may be old.)
			backend: `select tid from information_schema.processlist where id = (
 select max(id) from information_schema.processlist where id <> connection_id())`,
			calls: []string{"recvfrom", "pwrite64", "fdatasync", "sendto"},
			undertaker: func(ctx context.Context, killed <-chan bool) error {
				dead := m.Done()
				select {
				case <-dead: // the client waits for the next one
				case is := <-killed:
					if !is {
						return nil
					}
					<-dead
				}
				return m.Restart(ctx)
			},
		})
	})
}

// mortal is a server that can be killed.
type mortal struct {
	backend string   // query for the process, or the thread, that has a transaction open
	calls   []string // what it does in a commit

	// undertaker sees to it that there is a server again. Whether it was killed is told
	// when the client has got its answer.
	undertaker func(ctx context.Context, killed <-chan bool) error
}

func serverKill(t *testing.T, g *ground, m mortal) {
	start := time.Now()
	points := 0
	met := new(doubts)
	for _, runs := range []int{1, 3} { // with 1 the client is told, with 3 the engine runs the handler again
		for _, call := range m.calls {
			for k := 1; ; k++ {
				survived, err := killBackend(t, m, g, met, runs, call, k)
				if err != nil {
					t.Fatalf("server killed at %s %d, %d runs: %v. %s", call, k, runs, err, rerun(t))
				}
				if survived {
					break
				}
				points++
			}
		}
	}
	t.Logf("%s: %d crashes of the server; %v; in %v", g.store, points, met, time.Since(start).Round(time.Millisecond))
	if err := met.vacuous(); err != nil {
		t.Errorf("%v. %s", err, rerun(t))
	}
}

func killBackend(t *testing.T, m mortal, g *ground, met *doubts, runs int, call string, k int) (survived bool, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := g.open(t, setup{conns: 2, engine: once.Config{Runs: runs, Settle: patience, Observer: met}})
	key := fmt.Sprintf("%s-%d-%d-%d", call, k, runs, time.Now().UnixNano())
	if err := warm(ctx, s, plan{Key: key, Attempt: "warm"}); err != nil {
		return false, err
	}
	var assassin *tracer
	answered, buried := make(chan bool, 1), make(chan error, 1)
	c := &client{s: s, name: "client", op: operation(key), first: func() {
		pid := 0
		err = g.db.QueryRowContext(ctx, m.backend).Scan(&pid)
		if err == nil {
			assassin, err = attach(ctx, pid, call, fmt.Sprintf("signal=SIGKILL:when=%d", k))
		}
		go func() { buried <- m.undertaker(ctx, answered) }()
	}}
	got, told := c.ask(ctx)
	if err != nil {
		return false, fmt.Errorf("attaching: %w", err)
	}
	killed := assassin.killed()
	answered <- killed
	if err := <-buried; err != nil {
		return false, err
	}
	if err := g.reconnect(ctx); err != nil {
		return false, err
	}
	if told != nil {
		t.Logf("%s %d: %v", call, k, told)
		if got, err = c.insist(ctx); err != nil {
			return false, err
		}
	}
	return !killed, g.truthful(ctx, c, got)
}

// reconnect leaves no connection to a server that has died in the pool.
func (g *ground) reconnect(ctx context.Context) error {
	for {
		err := g.db.PingContext(ctx)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}
