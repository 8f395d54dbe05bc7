package main

import (
	"net"
	"strings"
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
	examined(t, url)["read_only"].want(t, "the primary", okay, "takes writes")
	for end := time.Now().Add(time.Minute); ask(replica, "select count(*) from information_schema.tables where table_name = 'once_operation'") != "1"; {
		if time.Now().After(end) {
			t.Fatal("the replica has no tables")
		}
	}
	examined(t, replica.URL("app"))["read_only"].want(t, "a writable replica", warn, "replicates from another one and takes writes")
	ask(replica, "set global read_only = 1")
	examined(t, replica.URL("app"))["read_only"].want(t, "a replica", fail, "takes no writes")

	ask(primary, "set global rpl_semi_sync_master_enabled = ON")
	diagnosis().want(t, "one that tells nothing", warn, "no replica acknowledges")

	ask(replica, "stop slave; set global rpl_semi_sync_slave_enabled = ON; start slave")
	until("Rpl_semi_sync_master_clients", "1")
	diagnosis().want(t, "AFTER_COMMIT", warn, "replays are local")

	ask(primary, "set global rpl_semi_sync_master_wait_point = AFTER_SYNC")
	diagnosis().want(t, "AFTER_SYNC", okay, "after a replica has it")
}

// TestDoctorEngines: tables that no transaction rolls back are named; those of once must not be
// among them.
func TestDoctorEngines(t *testing.T) {
	t.Parallel()
	m := testenv.SharedMariaDB(t)
	const name = "doctor_engines"
	if err := m.CreateDatabase(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.DropDatabase(name) })
	url := m.URL(name)
	run(t, "migrate", "up", "--db", url).want(t, 0)
	for _, c := range []struct {
		ask  string
		want level
		says string
	}{
		{"create table charge (id int primary key)", okay, "every table"},
		{"create table note (id int) engine = MyISAM; create table log (id int) engine = Aria", warn, "log (Aria), note (MyISAM)"},
		{"alter table once_operation engine = MyISAM", fail, "once_operation (MyISAM)"},
	} {
		if _, err := m.Query(t.Context(), name, c.ask); err != nil {
			t.Fatal(err)
		}
		examined(t, url)["engines"].want(t, c.ask, c.want, c.says)
	}
}

// TestDoctorWaits: how long MariaDB lets others wait is judged, and a binary log only where
// there is one.
func TestDoctorWaits(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "mariadb")
	for _, c := range []struct {
		settings         map[string]string
		idle, lock       level
		binlog           level
		idleTry, lockTry string
	}{
		{map[string]string{"sync_binlog": "0", "idle_transaction_timeout": "0", "innodb_lock_wait_timeout": "50"}, warn, warn, "", "Timeouts.Idle", "Timeouts.Lock"},
		{map[string]string{"sync_binlog": "0", "log-bin": "on", "server-id": "1", "idle_transaction_timeout": "60", "innodb_lock_wait_timeout": "5"}, okay, okay, warn, "", ""},
	} {
		m, err := testenv.StartMariaDB(t.Context(), testenv.MariaDBConfig{Settings: c.settings})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		if err := m.CreateDatabase("app"); err != nil {
			t.Fatal(err)
		}
		run(t, "migrate", "up", "--db", m.URL("app")).want(t, 0)
		found := examined(t, m.URL("app"))
		if f := found["sync_binlog"]; f.Level != c.binlog {
			t.Errorf("%v: sync_binlog: %+v, want %q", c.settings, f, c.binlog)
		}
		if f := found["idle_timeout"]; f.Level != c.idle || !strings.Contains(f.Try, c.idleTry) {
			t.Errorf("%v: %+v", c.settings, f)
		}
		if f := found["lock_timeout"]; f.Level != c.lock || !strings.Contains(f.Try, c.lockTry) {
			t.Errorf("%v: %+v", c.settings, f)
		}
	}
}
