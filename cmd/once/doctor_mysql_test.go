package main

import (
	"net"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// TestDoctorReplicas: on a real server that a real replica follows.
func TestDoctorReplicas(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadb")
	start := func(settings map[string]string) *testenv.MariaDB {
		t.Helper()
		m, err := testenv.StartMariaDB(t.Context(), testenv.MariaDBConfig{Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		return m
	}
	ask := func(m *testenv.MariaDB, query string) string {
		t.Helper()
		out, err := m.Query(t.Context(), "", query)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	primary := start(map[string]string{"log-bin": "on", "server-id": "1"})
	if err := primary.CreateDatabase("app"); err != nil {
		t.Fatal(err)
	}
	url := primary.URL("app")
	run(t, "migrate", "up", "--db", url).want(t, 0)
	diagnosis := func() finding { return examined(t, url)["replicas"] }
	until := func(status, want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ask(primary, "show global status like '"+status+"'") != status+"\t"+want; {
			if time.Now().After(end) {
				t.Fatalf("%s is not %s", status, want)
			}
		}
	}
	diagnosis().want(t, "alone", okay, "none")

	replica := start(map[string]string{"server-id": "2"})
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ask(primary, "create user follower@'%'; grant replication slave on *.* to follower@'%'")
	ask(replica, "change master to master_host = '"+host+"', master_port = "+port+", master_user = 'follower'; start slave")
	until("Slaves_connected", "1")
	diagnosis().want(t, "a replica", warn, "replicas exist (1) and nothing waits")

	ask(primary, "set global rpl_semi_sync_master_enabled = ON")
	diagnosis().want(t, "one that tells nothing", warn, "none is there that tells")

	ask(replica, "stop slave; set global rpl_semi_sync_slave_enabled = ON; start slave")
	until("Rpl_semi_sync_master_clients", "1")
	diagnosis().want(t, "AFTER_COMMIT", warn, "replays are local")

	ask(primary, "set global rpl_semi_sync_master_wait_point = AFTER_SYNC")
	diagnosis().want(t, "AFTER_SYNC", okay, "before a replica has it")
}
