package integration

import (
	"context"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestNthRestart restarts the server at the N-th statement, before it gets there or when it
// is on its way: by SIGKILL, with a recovery from the log, or in an orderly way.
func TestNthRestart(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pg.Close() })
		for _, name := range []string{harness.Pgx, harness.Postgres} {
			if err := pg.CreateDatabase(name); err != nil {
				t.Fatal(err)
			}
			restarts(t, serverTestDB(t, name, pg.URL(name)), pg, 9)
		}
	})
	for _, name := range innodbStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, name)
			m := startInnoDB(t, name, testenv.MariaDBConfig{})
			restarts(t, serverTestDB(t, name, m.DSN("mysql")), m, 5)
		})
	}
}

// restartable is a server.
type restartable interface {
	Kill() error
	Restart(ctx context.Context) error
}

func restarts(t *testing.T, g *testDB, server restartable, floor int) {
	line := newToll(t, address(t, g.DSN), wireOf(g.Kind))
	n := newNth(t, g, line, setup{dsn: line.dsn(g.DSN)})
	var under chan struct{} // a restart that is under way
	restart := func(kill bool, done chan struct{}) func() {
		return func() {
			defer close(done)
			if kill {
				if err := server.Kill(); err != nil {
					t.Error(err)
				}
			}
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	kinds := []func(done chan struct{}) fault{
		func(done chan struct{}) fault {
			return fault{name: "killed when it is on its way", overtake: restart(true, done)}
		},
		func(done chan struct{}) fault { return fault{name: "stopped before", meddle: restart(false, done)} },
		func(done chan struct{}) fault { return fault{name: "killed before", meddle: restart(true, done)} },
		func(done chan struct{}) fault {
			return fault{name: "stopped when it is on its way", overtake: restart(false, done)}
		},
	}
	n.calm = func() {
		if under != nil {
			<-under
		}
	}
	prepare := func(kind func(chan struct{}) fault) (fault, func()) {
		done := make(chan struct{})
		under = nil
		return kind(done), func() { under = done } // the client asks again while the server is down
	}
	if long() {
		for _, kind := range kinds {
			for _, c := range courses {
				n.loop(fault{}, c, func(context.Context) (fault, func()) { return prepare(kind) })
			}
		}
	} else { // in turns
		turn := 0
		n.loop(fault{}, course{flow: flowDo}, func(context.Context) (fault, func()) {
			turn++
			return prepare(kinds[turn%len(kinds)])
		})
	}
	n.report(scale(floor, 8*floor))
}
