package main

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	command "github.com/oncelib/once/cmd/once/internal/doctor"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate/doctor"
)

// wholesome is a server about which there is nothing to say.
var wholesome = map[string]string{
	"idle_in_transaction_session_timeout": "1min",
	"lock_timeout":                        "10s",
}

// startWholesome starts such a server, and applies the migrations that flags choose.
func startWholesome(t *testing.T, flags ...string) (*testenv.Postgres, string) {
	t.Helper()
	testenv.Need(t, "postgresql")
	pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{Settings: wholesome})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	db := pg.URL("postgres")
	run(t, append([]string{"migrate", "up", "--db", db}, flags...)...).want(t, 0)
	return pg, db
}

// TestDoctorSettings: each setting in both directions, on a server that has it.
func TestDoctorSettings(t *testing.T) {
	t.Parallel()
	pg, db := startWholesome(t)
	for check, f := range examined(t, db) {
		if f.Verdict != okay {
			t.Errorf("a healthy server: %s: %+v", check, f)
		}
	}
	for _, c := range []struct {
		check string
		level level
		says  string
		set   map[string]string
	}{
		{"fsync", fail, "acknowledged", map[string]string{"fsync": "off"}},
		{"full_page_writes", fail, "half written", map[string]string{"full_page_writes": "off"}},
		{"synchronous_commit", warn, "off", map[string]string{"synchronous_commit": "off"}},
		{"synchronous_commit", warn, "local", map[string]string{"synchronous_commit": "local"}},
		{"synchronous_commit", okay, "remote_write", map[string]string{"synchronous_commit": "remote_write"}},
		{"primary", fail, "read_only", map[string]string{"default_transaction_read_only": "on"}},
		{"idle_transactions", warn, "holds its key until its session ends", map[string]string{"idle_in_transaction_session_timeout": "0"}},
		{"statements", warn, "until its context ends", map[string]string{"lock_timeout": "0"}},
		{"statements", okay, "statement_timeout 1min", map[string]string{"lock_timeout": "0", "statement_timeout": "1min"}},
		{"vanished_hosts", warn, "2 h 11 min", map[string]string{
			"idle_in_transaction_session_timeout": "0",
			"tcp_keepalives_idle":                 "7200", "tcp_keepalives_interval": "75", "tcp_keepalives_count": "9",
		}},
		{"vanished_hosts", okay, "1 min", map[string]string{
			"idle_in_transaction_session_timeout": "0",
			"tcp_keepalives_idle":                 "60", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3",
		}},
		{"vanished_hosts", okay, "1 min", map[string]string{
			"idle_in_transaction_session_timeout": "0",
			"tcp_keepalives_idle":                 "60", "tcp_keepalives_interval": "75", "tcp_keepalives_count": "100", "tcp_user_timeout": "5s",
		}},
		{"standby", fail, "wait for the standby nobody, which is not connected", map[string]string{"synchronous_standby_names": "nobody"}},
	} {
		for name, value := range c.set {
			if err := pg.Set(t.Context(), name, value); err != nil {
				t.Fatal(err)
			}
		}
		examined(t, db)[c.check].want(t, c.check, c.level, c.says)
		if err := pg.Set(t.Context(), "lock_timeout", "10s"); err != nil {
			t.Fatal(err)
		}
		for name := range c.set {
			if _, err := pg.Query(t.Context(), "postgres", "alter system reset "+name); err != nil {
				t.Fatal(err)
			}
		}
		if err := pg.Set(t.Context(), "lock_timeout", "10s"); err != nil { // and load what was reset
			t.Fatal(err)
		}
	}
}

// TestDoctorStandby: what it says of one, and to one.
func TestDoctorStandby(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "pg_basebackup")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pg, db := startWholesome(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	examined(t, db)["standby"].want(t, "none", okay, "no standby")
	examined(t, db, "--synced")["standby"].want(t, "none, synced", okay, "gains nothing")
	s, err := testenv.StartStandby(ctx, pg, "heir")
	must(err)
	t.Cleanup(func() { _ = s.Close() })
	must(pg.WaitsFor(ctx, s))
	examined(t, db)["standby"].want(t, "waited for", warn, "replays do not")
	examined(t, db, "--synced")["standby"].want(t, "waited for, synced", okay, "wait for the standby heir")
	examined(t, s.URL("postgres"))["primary"].want(t, "the standby itself", fail, "a standby")

	_, err = pg.Query(ctx, "postgres", "create role plain login; grant select on all tables in schema public to plain")
	must(err)
	u, err := url.Parse(db)
	must(err)
	u.User = url.User("plain")
	examined(t, u.String())["standby"].want(t, "to whom standbys are hidden", warn, "replays do not")

	must(pg.Set(ctx, "synchronous_standby_names", ""))
	examined(t, db)["standby"].want(t, "not waited for", warn, "1 standby exists, but no commit waits")
	must(s.Cut(ctx))
	must(pg.Set(ctx, "synchronous_standby_names", "heir"))
	examined(t, db, "--synced")["standby"].want(t, "gone", fail, "no commit can complete")
}

// TestDoctorPooler: one that has no transactions is of no use.
func TestDoctorPooler(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "postgresql", "pgbouncer")
	pg, db := startWholesome(t)
	examined(t, db)["pooler"].want(t, "none", okay, "no connection pooler")
	for mode, l := range map[string]level{"transaction": okay, "session": okay, "statement": fail} {
		b, err := testenv.StartPgBouncerIn(t.Context(), mode, pg, "postgres")
		if err != nil {
			t.Fatal(err)
		}
		found := examined(t, b.URL())
		found["pooler"].want(t, mode, l, "is between this machine and the server")
		if mode != "statement" {
			found["migrations"].want(t, mode, okay, "all")
		}
		_ = b.Close()
	}
}

// TestDoctorLosesTheDatabase: what could not be asked is no clean bill of health.
func TestDoctorLosesTheDatabase(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	pg, db := startWholesome(t)
	p, err := command.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if d, err := doctor.Examine(t.Context(), p.Config("")); err != nil || !d.Healthy {
		t.Errorf("%+v, %v", d, err)
	}
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	if d, err := doctor.Examine(t.Context(), p.Config("")); err == nil {
		t.Errorf("a dead server: %+v", d)
	}
}

// TestDoctorClaims: a server that accepts advisory locks and does nothing.
func TestDoctorClaims(t *testing.T) {
	t.Parallel()
	pg, db := startWholesome(t)
	if _, err := pg.Query(t.Context(), "postgres", testenv.WithoutAdvisoryLocks); err != nil {
		t.Fatal(err)
	}
	examined(t, db)["claims"].want(t, "claims", okay, "holds advisory locks")
	examined(t, db+"&search_path="+testenv.WithoutAdvisoryLocksPath)["claims"].want(t, "claims", warn, "does not hold them")
}

// TestMissingTablesAreNoErrorsOfPostgreSQL: a service that uses only the engine has few tables. The commands that do not need the other tables ask the
// catalog, so that the log of the server has no errors that an operator would have to explain.
func TestMissingTablesAreNoErrorsOfPostgreSQL(t *testing.T) {
	t.Parallel()
	pg, db := startWholesome(t, "--only", "operation")
	errorsSoFar := func() int {
		text, err := os.ReadFile(pg.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "ERROR:")
	}
	for _, args := range [][]string{
		{"doctor"},
		{"doctor", "--after-restore", time.Now().UTC().Add(-time.Minute).Format(time.RFC3339)},
		{"keys", "list"},
		{"keys", "show", "k"},
		{"keys", "forget", "k", "--scope", "s", "--reason", "test"},
	} {
		before := errorsSoFar()
		out := run(t, append(args, "--db", db)...)
		if n := errorsSoFar() - before; n > 0 || out.stdout+out.stderr == "" {
			t.Errorf("once %s: the log of the server has %d errors more; the command has written:\n%s%s", strings.Join(args, " "), n, out.stdout, out.stderr)
		}
	}
	// The log does contain the errors of statements.
	before := errorsSoFar()
	run(t, "outbox", "list", "--db", db).want(t, 1)
	if errorsSoFar() == before {
		t.Error("a statement about a missing table has written no error to the log of the server, so this test has proved nothing")
	}
}
