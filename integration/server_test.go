package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestServerKill kills the database server inside of a commit: its backend dies as
// it enters the k-th system call after the handler has returned. The postmaster of
// PostgreSQL takes all others down and recovers, MariaDB and MySQL are started again. The client
// lives on, and what it is told must be true.
func TestServerKill(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "postgresql", "mariadb", "mysql", "strace")
	for _, store := range []string{harness.Pgx, harness.Postgres} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pg.Close() })
			serverKill(t, serverTestDB(t, store, pg.URL("postgres")), mortal{
				backend: "select pid from pg_stat_activity where state = 'idle in transaction'",
				calls:   []string{"recvfrom", "pwrite64", "fdatasync", "sendto"},
				settled: pg.WaitReady, // the victim's postmaster ends all other sessions, a little later
			})
		})
	}
	for _, store := range innodbStores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, store)
			m := startInnoDB(t, store, testenv.MariaDBConfig{Settings: withThreads(store)})
			revive(t, m)
			serverKill(t, serverTestDB(t, store, m.DSN("mysql")), mortal{
				backend: newestThread(store), // the client's
				calls:   []string{"recvfrom", "pwrite64", "fdatasync", "sendto"},
			})
		})
	}
}

// revive starts the server again whenever it has died, until the test ends.
func revive(t *testing.T, m *testenv.MariaDB) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-m.Done():
			}
			err := m.Restart(t.Context())
			for err != nil && strings.Contains(err.Error(), "signal: killed") { // the test may kill the server again before Restart has seen that the server is ready
				err = m.Restart(t.Context())
			}
			if err != nil {
				t.Errorf("restarting the server: %v", err)
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(over)
		<-ended
	})
}

// mortal is a server that can be killed and comes back by itself.
type mortal struct {
	backend string                          // query for the process, or the thread, that has a transaction open
	calls   []string                        // what it does in a commit
	settled func(ctx context.Context) error // optional: waits for what Ping does not
}

func serverKill(t *testing.T, g *testDB, m mortal) {
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
				testenv.Count("servers killed", 1)
			}
		}
	}
	testenv.Reportf(t, "%s: %d crashes of the server; %v; in %v", g.Kind, points, met, time.Since(start).Round(time.Millisecond))
	if err := met.vacuous(); err != nil {
		t.Errorf("%v. %s", err, rerun(t))
	}
}

func killBackend(t *testing.T, m mortal, g *testDB, met *doubts, runs int, call string, k int) (survived bool, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := g.open(t, setup{conns: 2, engine: once.Config{Runs: runs, Settle: patience, Observer: met}})
	key := fmt.Sprintf("%s-%d-%d-%d", call, k, runs, time.Now().UnixNano())
	if err := warm(ctx, s, plan{Key: key, Attempt: "warm"}); err != nil {
		return false, err
	}
	var assassin *tracer
	c := &client{s: s, name: "client", op: operation(key), first: func() {
		pid := 0
		err = g.db.QueryRowContext(ctx, m.backend).Scan(&pid)
		if err == nil {
			assassin, err = attach(ctx, pid, call, fmt.Sprintf("signal=SIGKILL:when=%d", k))
		}
	}}
	got, told := c.ask(ctx)
	if err != nil {
		return false, fmt.Errorf("attaching: %w", err)
	}
	killed, err := assassin.killed(ctx)
	if err == nil && m.settled != nil {
		err = m.settled(ctx)
	}
	if err != nil {
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
func (g *testDB) reconnect(ctx context.Context) error {
	for {
		err := g.db.PingContext(ctx)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}
