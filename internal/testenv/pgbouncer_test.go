//go:build linux

package testenv

import (
	"os"
	"strings"
	"testing"
)

func TestPgBouncerAnswers(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql", "pgbouncer")
	pg := SharedPostgres(t)
	name := databaseName(t.Name())
	if err := pg.CreateDatabase(name); err != nil {
		t.Fatal(err)
	}
	bouncer, err := StartPgBouncer(t.Context(), pg, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bouncer.Close(); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(bouncer.URL(), bouncer.Addr()) || !strings.Contains(bouncer.URL(), name) {
		t.Errorf("URL = %s", bouncer.URL())
	}
	path, err := Binary("psql")
	if err != nil {
		t.Fatal(err)
	}
	// Through the pooler, and seen by the server itself.
	if _, err := psql(t.Context(), path, bouncer.port, name, "create table t as select current_database() as d"); err != nil {
		t.Fatal(err)
	}
	if got, err := pg.Query(t.Context(), name, "select d from t"); got != name || err != nil {
		t.Errorf("row written through the pooler: %q, %v", got, err)
	}
	if log, err := os.ReadFile(bouncer.LogPath()); err != nil || !strings.Contains(string(log), "process up") {
		t.Errorf("log: %v\n%s", err, log)
	}
	if err := bouncer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := psql(t.Context(), path, bouncer.port, name, "select 1"); err == nil {
		t.Error("a closed pooler answers")
	}
	if err := pg.DropDatabase(name); err != nil {
		t.Error(err)
	}
}

// TestPgBouncerPoolsTransactions shows that the mode is the one promised: two
// clients, each between two transactions, share one session of the server.
func TestPgBouncerPoolsTransactions(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql", "pgbouncer")
	bouncer, err := StartPgBouncer(t.Context(), SharedPostgres(t), superuser)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bouncer.Close(); err != nil {
			t.Error(err)
		}
	})
	path, err := Binary("psql")
	if err != nil {
		t.Fatal(err)
	}
	var backends [2]string
	for n := range backends {
		if backends[n], err = psql(t.Context(), path, bouncer.port, superuser, "select pg_backend_pid()"); err != nil {
			t.Fatal(err)
		}
	}
	if backends[0] != backends[1] {
		t.Errorf("two clients one after the other got the sessions %v", backends)
	}
	config, err := os.ReadFile(bouncer.dir.path + "/pgbouncer.ini")
	if err != nil || !strings.Contains(string(config), "pool_mode = transaction") {
		t.Errorf("configuration: %v\n%s", err, config)
	}
}
