package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestAServerThatCameBack: operations find a pool full of connections that broke while
// they were not used, and go on as if nothing had been.
func TestAServerThatCameBack(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	for _, name := range []string{harness.Pgx, harness.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pg.Close() })
			front, err := faultnet.Listen(pg.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = front.Close() })
			const clients = 8
			g := serverTestDB(t, name, pg.URL("postgres"))
			s := g.open(t, setup{dsn: pg.URLVia(front.Addr(), "postgres"), conns: clients, engine: once.Config{Runs: 1}})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, c := range []struct {
				how   string
				brake func() error
			}{
				{"nothing has happened", func() error { return nil }},
				{"the server has ended the sessions", func() error {
					return g.until(ctx, `select count(pg_terminate_backend(pid)) = 0 from pg_stat_activity
 where backend_type = 'client backend' and pid <> pg_backend_pid()`)
				}},
				{"the line was cut", func() error {
					if n := front.CutAll(); n < clients {
						return fmt.Errorf("there were only %d connections", n)
					}
					return nil
				}},
				{"the server has restarted", func() error { return pg.Restart(ctx) }},
			} {
				// At SERIALIZABLE something else is sent first.
				for _, level := range []store.Isolation{store.DefaultIsolation, store.Serializable} {
					together(ctx, t, s, level, clients, "before")
					if err := c.brake(); err != nil {
						t.Fatalf("%s: %v", c.how, err)
					}
					together(ctx, t, s, level, clients, c.how)
				}
			}
		})
	}
}

// together performs operations that hold a connection each, all at one time.
func together(ctx context.Context, t *testing.T, s system, level store.Isolation, clients int, when string) {
	t.Helper()
	var group, inside sync.WaitGroup
	inside.Add(clients)
	for range clients {
		group.Go(func() {
			enter := once0(inside.Done)
			defer enter() // a call that fails delays no other
			op := operation(once.NewKey())
			op.Isolation = level
			_, _, err := s.Do(ctx, op, work{key: op.Key, attempt: "only", before: func() { enter(); inside.Wait() }})
			if err != nil {
				t.Errorf("%s: %v", when, err)
			}
		})
	}
	group.Wait()
}
