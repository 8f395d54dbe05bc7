package integration

import (
	"fmt"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// innodbStores are those that keep their tables in InnoDB: MariaDB and MySQL. A test of one of
// them is a test of the other, unless it says why not.
var innodbStores = []string{harness.MariaDB, harness.MySQL}

func innodb(store string) bool { return store == harness.MariaDB || store == harness.MySQL }

// sampleMySQL leaves most of the long walks on MySQL out of make prove. They go the ways of
// MariaDB's, which are always gone.
func sampleMySQL(t *testing.T, store string) {
	t.Helper()
	if store == harness.MySQL {
		testenv.Sample(t, 4)
	}
}

// startInnoDB starts a server for one test.
func startInnoDB(t *testing.T, store string, config testenv.MariaDBConfig) *testenv.MariaDB {
	t.Helper()
	testenv.Need(t, "mariadb")
	if config.MySQL = store == harness.MySQL; config.MySQL {
		testenv.Need(t, "mysql")
	}
	m, err := testenv.StartMariaDB(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// withThreads are the settings with which a server tells which thread serves a session. MariaDB
// always does.
func withThreads(store string) map[string]string {
	if store == harness.MySQL {
		return map[string]string{"performance-schema": "ON"}
	}
	return nil
}

// threads is the table of sessions p that says which thread serves each: its column tid.
func threads(store string) string {
	if store == harness.MySQL {
		return "(select processlist_id as id, processlist_command as command, thread_os_id as tid from performance_schema.threads where processlist_id is not null) p"
	}
	return "information_schema.processlist p"
}

// newestThread is a query for the thread that serves the newest session but the own.
// (What innodb_trx says may be old.)
func newestThread(store string) string {
	return "select p.tid from " + threads(store) + " where p.id <> connection_id() order by p.id desc limit 1"
}

// raiseInnoDB is a statement that fails with an error of the server. A deadlock takes the
// transaction along, a lock wait does not.
func raiseInnoDB(store string, code int) string {
	switch {
	case code != 1213:
		return signal(code)
	case store == harness.MySQL:
		return "call be_in_a_deadlock()"
	}
	return "begin not atomic rollback; " + signal(code) + "; end"
}

func signal(code int) string {
	return fmt.Sprintf("signal sqlstate 'HY000' set mysql_errno = %d, message_text = 'raised'", code)
}

// mysqlProcedures are what takes a compound statement, which MySQL has in procedures only.
var mysqlProcedures = []string{
	"create procedure be_in_a_deadlock() begin rollback; " + signal(1213) + "; end",
	"create procedure commit_from_below() commit",
}
