package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	command "github.com/oncelib/once/cmd/once/internal/doctor"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
)

// onMySQL runs test on MariaDB and on MySQL.
func onMySQL(t *testing.T, test func(t *testing.T, mysql bool)) {
	t.Helper()
	for name, mysql := range map[string]bool{"MariaDB": false, "MySQL": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, mysql)
		})
	}
}

// sharedMySQL is the server that the tests share, and a new database of it.
func sharedMySQL(t *testing.T, mysql bool) (server *testenv.MariaDB, name string) {
	t.Helper()
	if mysql {
		_, name, _ = strings.Cut(testenv.NewMySQL(t), "/")
		return testenv.SharedMySQL(t), name
	}
	_, name, _ = strings.Cut(testenv.NewMariaDB(t), "/")
	return testenv.SharedMariaDB(t), name
}

// startMySQL starts a server of the test's own.
func startMySQL(t *testing.T, mysql bool, settings map[string]string) *testenv.MariaDB {
	t.Helper()
	need := "mariadb"
	if mysql {
		need = "mysql"
	}
	testenv.Need(t, need)
	m, err := testenv.StartMariaDB(t.Context(), testenv.MariaDBConfig{MySQL: mysql, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// runSQL runs SQL as root.
func runSQL(t *testing.T, m *testenv.MariaDB, database, query string) string {
	t.Helper()
	out, err := m.Query(t.Context(), database, query)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// until waits until the server answers a query with want.
func until(t *testing.T, m *testenv.MariaDB, query, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); got != want; got = runSQL(t, m, "", query) {
		if time.Now().After(end) {
			t.Fatalf("%s: %q, not %q", query, got, want)
		}
	}
}

// TestDoctorReplicas: on a real server that a real replica follows.
func TestDoctorReplicas(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onMySQL(t, func(t *testing.T, mysql bool) {
		primary := startMySQL(t, mysql, map[string]string{"log-bin": "on", "server-id": "1"})
		replica := startMySQL(t, mysql, map[string]string{"server-id": "2"})
		role := map[string]string{"source": "master", "replica": "slave"} // in the words of MariaDB
		if mysql {
			role = map[string]string{"source": "source", "replica": "replica"}
			runSQL(t, primary, "", "install plugin rpl_semi_sync_source soname 'semisync_source.so'")
			runSQL(t, replica, "", "install plugin rpl_semi_sync_replica soname 'semisync_replica.so'")
		}
		words := func(text string) string {
			return strings.NewReplacer("SOURCE", role["source"], "REPLICA", role["replica"]).Replace(text)
		}
		if err := primary.CreateDatabase("app"); err != nil {
			t.Fatal(err)
		}
		url := primary.URL("app")
		run(t, "migrate", "up", "--db", url).want(t, 0)
		diagnosis := func() finding { return examined(t, url)["replicas"] }
		diagnosis().want(t, "alone", okay, "no replicas")

		host, port, err := net.SplitHostPort(primary.Addr())
		if err != nil {
			t.Fatal(err)
		}
		runSQL(t, primary, "", "create user follower@'%'; grant replication slave on *.* to follower@'%'; create user plain@'%'; grant select on app.* to plain@'%'")
		change := "change replication source to"
		if !mysql {
			change = "change master to"
		}
		runSQL(t, replica, "", words(change+" SOURCE_host = '"+host+"', SOURCE_port = "+port+", SOURCE_user = 'follower'; start REPLICA"))
		followers := func() {
			if mysql {
				for end := time.Now().Add(time.Minute); runSQL(t, primary, "", "show replicas") == ""; {
					if time.Now().After(end) {
						t.Fatal("no replica follows")
					}
				}
				return
			}
			until(t, primary, "show global status like 'Slaves_connected'", "Slaves_connected\t1")
		}
		followers()
		diagnosis().want(t, "a replica", warn, "replicas exist (1), but neither commits nor replays wait")
		plain := examined(t, strings.Replace(url, "root@", "plain@", 1))
		if mysql {
			plain["replicas"].want(t, "a user who may not ask", okay, "this user may not list the replicas")
		} else {
			plain["replicas"].want(t, "any user", warn, "replicas exist (1)")
		}
		examined(t, url)["read_only"].want(t, "the primary", okay, "accepts writes")
		until(t, replica, "select count(*) from information_schema.tables where table_name = 'once_operation'", "1")
		examined(t, replica.URL("app"))["read_only"].want(t, "a writable replica", warn, "replicates from another server, and accepts writes")
		runSQL(t, replica, "", "set global read_only = 1")
		examined(t, replica.URL("app"))["read_only"].want(t, "a replica", fail, "this server is a replica and accepts no writes")

		runSQL(t, primary, "", words("set global rpl_semi_sync_SOURCE_enabled = ON"))
		diagnosis().want(t, "one that tells nothing", warn, "no replica acknowledges")

		runSQL(t, replica, "", words("stop REPLICA; set global rpl_semi_sync_REPLICA_enabled = ON; start REPLICA"))
		until(t, primary, words("show global status like 'Rpl_semi_sync_SOURCE_clients'"), words("Rpl_semi_sync_SOURCE_clients\t1"))
		runSQL(t, primary, "", words("set global rpl_semi_sync_SOURCE_wait_point = AFTER_COMMIT"))
		diagnosis().want(t, "AFTER_COMMIT", warn, "replays do not wait for a replica")

		runSQL(t, primary, "", words("set global rpl_semi_sync_SOURCE_wait_point = AFTER_SYNC"))
		diagnosis().want(t, "AFTER_SYNC", okay, "after a replica has the commit, or after 10000 ms")
	})
}

// TestDoctorAccess: a user with whom once migrate up, or the service, cannot work is found out
// before it is tried; so is a server that lacks what a migration needs.
func TestDoctorAccess(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(t *testing.T, mysql bool) {
		m, name := sharedMySQL(t, mysql)
		user := "doctor" + strings.ToLower(rand.Text())[:8]
		runSQL(t, m, "", "create user "+user+"@'%'; grant select on `"+name+"`.* to "+user+"@'%'")
		t.Cleanup(func() {
			if _, err := m.Query(context.WithoutCancel(t.Context()), "", "drop user "+user+"@'%'"); err != nil {
				t.Error(err)
			}
		})
		root := m.URL(name)
		url := strings.Replace(root, "root@", user+"@", 1)
		check := func(url, when, check string, l level, says string) {
			t.Helper()
			examined(t, url)[check].want(t, when, l, says)
		}
		check(root, "root", "migrations", fail, "5 of 5 migrations of operation are missing: operations fail")
		check(url, "who may not create tables", "migrations", fail, "once migrate up would fail: Error 1142 (42000): CREATE command denied")
		if o := run(t, "migrate", "up", "--db", url).want(t, 1); !strings.Contains(o.stderr, "CREATE command denied") {
			t.Errorf("the doctor is wrong: %s", o.stderr)
		}
		if got := tables(t, root); len(got) > 0 {
			t.Errorf("the doctor has made %v", got)
		}
		const (
			service  = "insert, update, delete" // and select: what docs/quickstart.md says
			migrates = "create, alter, index"
		)
		runSQL(t, m, "", "grant "+service+", "+migrates+" on `"+name+"`.* to "+user+"@'%'")
		run(t, "migrate", "up", "--db", url).want(t, 0)
		check(url, "who may do all", "privileges", okay, "read and write")
		runSQL(t, m, "", "revoke "+service+", "+migrates+" on `"+name+"`.* from "+user+"@'%'")
		check(url, "who may only read", "privileges", fail, "no privilege to insert, update, delete in once_operation")
		runSQL(t, m, "", "grant "+service+" on `"+name+"`.* to "+user+"@'%'")
		check(url, "who may do both", "privileges", okay, "read and write")
		executes(t, url)
		run(t, "sweep", "--db", url).want(t, 0)
		check(root+"?"+readOnlySession(mysql)+"=1", "a session that cannot write", "read_only", fail, "sessions are read only")
		check(root+"?autocommit=0", "a session that the store refuses", "store", fail, "autocommit is off")
		check(root, "on this machine", "encryption", okay, "does not leave this machine")
		check(root, "a server with locks", "claims", okay, "holds named locks (GET_LOCK)")
		check(root, "as sqlstore.Open sets it", "packets", okay, "a request to the server may have several statements")
		check(root+"?multiStatements=true&interpolateParams=true", "as the user sets it", "packets", okay, "a request to the server may have several statements")
		check(root+"?multiStatements=false", "without packets", "packets", warn, "an operation needs three more round trips, a first attempt four more, and a batch five more")
		check(root+"?multiStatements=true", "without arguments in packets", "packets", warn, "several statements, but no arguments")
		if mysql {
			check(root+"?tls=skip-verify", "with TLS", "encryption", okay, "TLS")
		}

		db, err := command.Open(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		cfg := db.Config("")
		cfg.Status = func(context.Context) ([]migration.Status, error) {
			return []migration.Status{{Migration: migration.Migration{Capability: "operation", SQL: "create table t (a varchar(32) default (no_such_function('')))"}}}, nil
		}
		r, err := doctor.Examine(t.Context(), cfg)
		if i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool {
			return f.Check == "migrations" && strings.Contains(f.Says, "once migrate up would fail: ")
		}); err != nil || i < 0 {
			t.Errorf("a migration with a function that the server does not have is not found out: %+v, %v", r, err)
		}
		runSQL(t, m, name, "drop table once_operation")
		check(root, "a table that was dropped", "migrations", fail, "the table once_operation of this migration does not exist")
	})
}

// executes fails unless an operation can be executed and replayed.
func executes(t *testing.T, url string) {
	t.Helper()
	db, err := cli.OpenDatabase(t.Context(), url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlstore.New(t.Context(), db.DB, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, replayed := range []bool{false, true} {
		engine := once.New(s, once.Config{Timeouts: store.Timeouts{Lock: time.Second, Statement: time.Minute, Idle: time.Minute}})
		r, err := once.Do(t.Context(), engine, once.Operation{Scope: "doctor", Key: "key"}, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
		if err != nil || r.Value != 1 || r.Replayed != replayed {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func readOnlySession(mysql bool) string {
	if mysql {
		return "transaction_read_only"
	}
	return "tx_read_only"
}

// TestMigrateWithStrictServer: once and its demo work where tables without a primary key are refused,
// or get an invisible one.
func TestMigrateWithStrictServer(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mysql")
	for _, setting := range []string{"sql_require_primary_key=1", "sql_generate_invisible_primary_key=1"} {
		m, name := sharedMySQL(t, true)
		url := m.URL(name) + "?" + setting
		run(t, "migrate", "up", "--db", url).want(t, 0)
		run(t, "demo", "--ops", "1", "--json", "--db", url).want(t, 0)
		if got := runSQL(t, m, name, "select count(*) from information_schema.columns where table_schema = database() and column_name = 'my_row_id'"); got != "0" {
			t.Errorf("%s: %s tables have no primary key of their own", setting, got)
		}
	}
}

// TestDoctorEngines: tables that no transaction rolls back are named; those of once must not be
// among them.
func TestDoctorEngines(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(t *testing.T, mysql bool) {
		m, name := sharedMySQL(t, mysql)
		other := map[bool]string{false: "Aria", true: "MyISAM"}[mysql]
		url := m.URL(name)
		run(t, "migrate", "up", "--db", url).want(t, 0)
		for _, c := range []struct {
			ask  string
			want level
			says string
		}{
			{"create table charge (id int primary key)", okay, "each table"},
			{"create table note (id int) engine = MyISAM; create table log (id int) engine = " + other, warn, "log (" + other + "), note (MyISAM)"},
			{"alter table once_operation engine = MyISAM", fail, "once_operation (MyISAM)"},
		} {
			runSQL(t, m, name, c.ask)
			examined(t, url)["engines"].want(t, c.ask, c.want, c.says)
		}
	})
}

// TestDoctorWaits: how long a server lets others wait is judged, and a binary log only where there
// is one.
func TestDoctorWaits(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, c := range []struct {
		mysql            bool
		settings         map[string]string
		idle, lock       level
		binlog           level
		idleTry, lockTry string
	}{
		{false, map[string]string{"sync_binlog": "0", "idle_transaction_timeout": "0", "innodb_lock_wait_timeout": "50"}, warn, warn, "", "Timeouts.Idle", "Timeouts.Lock"},
		{false, map[string]string{"sync_binlog": "0", "log-bin": "on", "server-id": "1", "idle_transaction_timeout": "60", "innodb_lock_wait_timeout": "5"}, okay, okay, warn, "", ""},
		{true, map[string]string{"sync_binlog": "0"}, warn, warn, "", "Timeouts.Idle", "Timeouts.Lock"},
		{true, map[string]string{"sync_binlog": "0", "log-bin": "on", "binlog-format": "STATEMENT", "wait_timeout": "60", "innodb_lock_wait_timeout": "5"}, okay, okay, warn, "", ""},
	} {
		m := startMySQL(t, c.mysql, c.settings)
		if err := m.CreateDatabase("app"); err != nil {
			t.Fatal(err)
		}
		run(t, "migrate", "up", "--db", m.URL("app")).want(t, 0)
		found := examined(t, m.URL("app"))
		if f := found["sync_binlog"]; f.Verdict != c.binlog {
			t.Errorf("%v: sync_binlog: %+v, want %q", c.settings, f, c.binlog)
		}
		if c.settings["binlog-format"] != "" {
			found["binlog_format"].want(t, "STATEMENT", fail, "1665")
		}
		if f := found["idle_timeout"]; f.Verdict != c.idle || !strings.Contains(f.Try, c.idleTry) {
			t.Errorf("%v: %+v", c.settings, f)
		}
		if f := found["lock_timeout"]; f.Verdict != c.lock || !strings.Contains(f.Try, c.lockTry) {
			t.Errorf("%v: %+v", c.settings, f)
		}
		if c.mysql {
			runSQL(t, m, "", "alter instance disable innodb redo_log")
			examined(t, m.URL("app"))["redo_log"].want(t, "without a redo log", fail, "the redo log is disabled")
		}
	}
}
