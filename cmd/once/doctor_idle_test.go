package main

import (
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// TestDoctorIdleConnections: the doctor tells what closes idle connections: the server, or the pooler in front of it.
func TestDoctorIdleConnections(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "postgresql", "pgbouncer")
	pg, db := startWholesome(t)
	examined(t, db)["idle_connections"].want(t, "no bound", okay, "does not close")
	if _, err := pg.Query(t.Context(), "postgres", "create role "+testenv.PgBouncerUser+" login superuser"); err != nil {
		t.Fatal(err)
	}
	b, err := testenv.StartPgBouncer(t.Context(), pg, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	set := func(name, value string) {
		t.Helper()
		if err := b.Set(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	examined(t, b.URL())["idle_connections"].want(t, "PgBouncer as it comes", okay, "to the server after 10 min")
	set("client_idle_timeout", "7200")
	examined(t, b.URL())["idle_connections"].want(t, "PgBouncer, longer than pools", okay, "2 h")
	set("client_idle_timeout", "120")
	f := examined(t, b.URL())["idle_connections"]
	if f.want(t, "PgBouncer", warn, "PgBouncer (client_idle_timeout) closes connections that are idle for 2 min"); !strings.Contains(f.Try, "to less than 2 min") {
		t.Errorf("%+v", f)
	}
	other := strings.Replace(b.URL(), "postgres@", testenv.PgBouncerUser+"@", 1)
	examined(t, other)["idle_connections"].want(t, "a user who may not ask PgBouncer", okay, "this user may not read the setting client_idle_timeout")
	if err := pg.Set(t.Context(), "idle_session_timeout", "1min"); err != nil {
		t.Fatal(err)
	}
	examined(t, db)["idle_connections"].want(t, "the server", warn, "the server (idle_session_timeout) closes connections that are idle for 1 min")
	if err := pg.Set(t.Context(), "idle_session_timeout", "1h"); err != nil {
		t.Fatal(err)
	}
	examined(t, db)["idle_connections"].want(t, "the server, longer than pools", okay, "1 h")
}

// TestDoctorIdleConnectionsMySQL: wait_timeout belongs to the connections of the service.
func TestDoctorIdleConnectionsMySQL(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(t *testing.T, mysql bool) {
		m, name := sharedMySQL(t, mysql)
		url := m.URL(name)
		run(t, "migrate", "up", "--db", url).want(t, 0)
		examined(t, url)["idle_connections"].want(t, "as it comes", okay, "8 h")
		examined(t, url+"?wait_timeout=60")["idle_connections"].want(t, "a minute", okay, "1 min")
		examined(t, url+"?wait_timeout=20")["idle_connections"].want(t, "short", warn, "20s")
	})
}
