package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestIOError makes the N-th system call of an operation fail with EIO, in the process
// of the database that serves it, N = 1, 2, ... until none is reached.
func TestIOError(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql", "strace")
	for _, store := range []string{harness.Pgx, harness.Postgres} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{Settings: map[string]string{"autovacuum": "off"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pg.Close() })
			failing{
				trial:   &trial{g: serverTestDB(t, store, pg.URL("postgres"))},
				prepare: executes("truncate charge, entry, ledger, receipt, once_operation"),
				backend: `select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() order by backend_start desc limit 1`,
				calls:   []string{"pwrite64", "fdatasync", "sendto", "recvfrom"},
				must:    []string{"pwrite64", "fdatasync"},
				revive:  pg.WaitReady,
			}.run(t)
		})
	}
	for _, store := range innodbStores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, store)
			settings := map[string]string{"skip-stack-trace": "ON"}
			if store == harness.MySQL {
				settings = withThreads(store)
			}
			m := startInnoDB(t, store, testenv.MariaDBConfig{Settings: settings})
			deaths := supervise(t, m)
			failing{
				trial:   &trial{g: serverTestDB(t, store, m.DSN("mysql"))},
				prepare: executes(truncateInnoDB),
				backend: newestThread(store),
				calls:   []string{"pwrite64", "fdatasync", "fallocate", "sendto", "recvfrom"},
				must:    []string{"pwrite64", "fdatasync"},
				revive:  func(context.Context) error { return nil },
			}.run(t)
			t.Logf("the server has ended %d times", deaths())
		})
	}
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(harness.SQLite+" "+journal, func(t *testing.T) { t.Parallel(); failSQLite(t, harness.SQLite, journal) })
	}
	if long() { // SQLite waits by itself, each time for ten seconds
		t.Run(harness.Group+" WAL", func(t *testing.T) { t.Parallel(); failSQLite(t, harness.Group, "WAL") })
	}
}

// failing is a server whose system calls fail.
type failing struct {
	*trial

	prepare     func(context.Context, *testDB) error // so that an operation writes all that it can
	backend     string                               // query for the process, or the thread, that serves the newest connection
	calls, must []string                             // all, and those that there are for sure
	revive      func(context.Context) error          // returns when there is a server again
}

func (f failing) run(t *testing.T) {
	start := time.Now()
	points := map[string]int{}
	for _, settles := range []bool{true, false} {
		for _, call := range f.calls {
			if !long() && (!settles && call != "fdatasync" || call == "recvfrom") {
				continue
			}
			for n := 1; ; n += step(call) {
				hit, err := f.visit(t, settles, call, n)
				if err != nil {
					t.Fatalf("EIO at %s %d, settles %t: %v. %s", call, n, settles, err, rerun(t))
				}
				if !hit {
					break
				}
				f.hits++
				points[call]++
				testenv.Count("errors of the disk", 1)
			}
		}
	}
	testenv.Reportf(t, "%s: %v %v; in %v", f.g.Kind, f.trial, points, time.Since(start).Round(time.Millisecond))
	for _, call := range f.must {
		if points[call] == 0 {
			t.Errorf("vacuous: no %s has failed. %s", call, rerun(t))
		}
	}
	if err := f.vacuous(); err != nil {
		t.Errorf("%v. %s", err, rerun(t))
	}
}

// step is how many calls are left out between two that fail.
func step(call string) int {
	if slices.Contains([]string{"openat", "pread64"}, call) { // they write nothing
		return scale(4, 1)
	}
	return 1
}

func (f failing) visit(t *testing.T, settles bool, call string, n int) (hit bool, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var tracing *tracer
	f.mend = func(ctx context.Context) error {
		if tracing != nil {
			hit = tracing.detach()
		}
		return errors.Join(f.revive(ctx), f.g.reconnect(ctx))
	}
	_, err = f.endure(ctx, t, settles, 1, paper(24<<10), func() error {
		if err := f.prepare(ctx, f.g); err != nil {
			return err
		}
		pid := 0
		err := f.g.db.QueryRowContext(ctx, f.backend).Scan(&pid)
		if err == nil {
			tracing, err = attach(ctx, pid, call, fmt.Sprintf("error=EIO:when=%d", n))
		}
		return err
	})
	return hit, err
}

// truncateInnoDB makes the tables of a server as small as they can be.
const truncateInnoDB = "truncate charge;;truncate entry;;truncate ledger;;truncate receipt;;truncate once_operation"
