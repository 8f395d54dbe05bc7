//go:build linux

package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// onBoth runs a test on MariaDB and on MySQL.
func onBoth(t *testing.T, test func(t *testing.T, mysql bool)) {
	t.Parallel()
	for name, mysql := range map[string]bool{"mariadb": false, "mysql": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Need(t, name)
			test(t, mysql)
		})
	}
}

func startMariaDB(t *testing.T, config MariaDBConfig) *MariaDB {
	t.Helper()
	m, err := StartMariaDB(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// toldOfRecovery are the settings with which the log tells of crash recovery.
func toldOfRecovery(mysql bool) map[string]string {
	if mysql {
		return map[string]string{"log-error-verbosity": "3"}
	}
	return nil
}

func asked(t *testing.T, m *MariaDB, sql string) string {
	t.Helper()
	out, err := m.Query(t.Context(), "mysql", sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMariaDBAnswersAndIsConfigured(t *testing.T) { onBoth(t, testMariaDBAnswersAndIsConfigured) }

func testMariaDBAnswersAndIsConfigured(t *testing.T, mysql bool) {
	m := startMariaDB(t, MariaDBConfig{MySQL: mysql, Settings: map[string]string{"sort-buffer-size": "1048576"}})
	for sql, want := range map[string]string{
		"select version() like '%MariaDB%'": map[bool]string{false: "1", true: "0"}[mysql],
		"select @@log_bin":                  "0",
		"select @@innodb_flush_log_at_trx_commit, @@innodb_doublewrite in ('1', 'ON')": "1\t1",
		"select @@performance_schema":           "0",
		"select @@sort_buffer_size":             "1048576",
		"select @@datadir":                      m.DataDir() + "/",
		"select @@port":                         fmt.Sprint(m.port),
		"select 1, 'é' union all select 2, 'b'": "1\té\n2\tb",
	} {
		if got := asked(t, m, sql); got != want {
			t.Errorf("%s = %q, want %q", sql, got, want)
		}
	}
	if _, err := m.Query(t.Context(), "mysql", "select 1; select nowhere; select 2"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a wrong query: %v", err)
	}
	if want := fmt.Sprintf("root@tcp(127.0.0.1:%d)/x", m.port); m.DSN("x") != want {
		t.Errorf("DSN = %s, want %s", m.DSN("x"), want)
	}
	if want := fmt.Sprintf("mysql://root@127.0.0.1:%d/x", m.port); m.URL("x") != want {
		t.Errorf("URL = %s, want %s", m.URL("x"), want)
	}
}

func TestMariaDBStartReportsTheLog(t *testing.T) { onBoth(t, testMariaDBStartReportsTheLog) }

func testMariaDBStartReportsTheLog(t *testing.T, mysql bool) {
	m, err := StartMariaDB(t.Context(), MariaDBConfig{MySQL: mysql, Settings: map[string]string{"no-such-setting": "1"}})
	if err == nil {
		_ = m.Close()
		t.Fatal("a wrong setting was accepted")
	}
	if !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("the error hides the reason: %v", err)
	}
}

// TestMariaDBKillKeepsCommittedData crashes the server under load, from inside and
// from outside: every row whose COMMIT was acknowledged must be there afterwards.
func TestMariaDBKillKeepsCommittedData(t *testing.T) { onBoth(t, testMariaDBKillKeepsCommittedData) }

func testMariaDBKillKeepsCommittedData(t *testing.T, mysql bool) {
	m := startMariaDB(t, MariaDBConfig{MySQL: mysql, Settings: toldOfRecovery(mysql)})
	asked(t, m, "create table crashed (n int primary key) engine=innodb")
	for round, kill := range []func() error{m.Kill, func() error { return syscall.Kill(m.Pid(), syscall.SIGKILL) }} {
		first := make(chan struct{}) // closed when rows begin to be acknowledged
		count := make(chan int, 1)
		go func() {
			for n := 0; ; n++ {
				if _, err := m.Query(context.Background(), "mysql", fmt.Sprintf("insert into crashed values (%d)", 1_000_000*round+n)); err != nil {
					count <- n
					return
				}
				if n == 2 {
					close(first)
				}
			}
		}()
		<-first
		pid := m.Pid()
		if err := kill(); err != nil {
			t.Fatal(err)
		}
		n := <-count
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.Pid() == pid || m.Pid() == 0 {
			t.Errorf("Pid after Restart: %d, was %d", m.Pid(), pid)
		}
		if got := asked(t, m, fmt.Sprintf("select count(*) from crashed where n >= %[1]d and n < %[1]d + %[2]d", 1_000_000*round, n)); got != fmt.Sprint(n) {
			t.Errorf("%s of %d acknowledged rows survived", got, n)
		}
	}
	if log, err := os.ReadFile(m.LogPath()); err != nil || strings.Count(string(log), "Starting crash recovery") < 2 {
		t.Errorf("no crash recovery in the log (%v): Kill was no crash\n%s", err, log)
	}
}

func TestMariaDBStopAndClose(t *testing.T) { onBoth(t, testMariaDBStopAndClose) }

func testMariaDBStopAndClose(t *testing.T, mysql bool) {
	m := startMariaDB(t, MariaDBConfig{MySQL: mysql, Settings: toldOfRecovery(mysql)})
	if err := m.Stop(); err != nil || m.Pid() != 0 {
		t.Fatal(err, m.Pid())
	}
	for range 2 { // the second one restarts a running server
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked(t, m, "select 1")
	}
	if log, _ := os.ReadFile(m.LogPath()); strings.Contains(string(log), "Starting crash recovery") {
		t.Error("Stop was a crash")
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(m.dir.path); !os.IsNotExist(err) {
		t.Error("the directory is still there:", err)
	}
	if err := m.Restart(t.Context()); err == nil {
		t.Error("a closed server restarted")
	}
	if conn, err := net.Dial("tcp", m.Addr()); err == nil {
		conn.Close()
		t.Error("the port still answers")
	}
}

func TestNewMariaDB(t *testing.T) { onBoth(t, testNewMariaDB) }

func testNewMariaDB(t *testing.T, mysql bool) {
	shared, create := SharedMariaDB, NewMariaDB
	if mysql {
		shared, create = SharedMySQL, NewMySQL
	}
	m := shared(t)
	var name string
	t.Run("It's own", func(t *testing.T) {
		first, second := create(t), create(t)
		if first == second {
			t.Fatal("the same database twice:", first)
		}
		_, name, _ = strings.Cut(first, "/")
		if got, err := m.Query(t.Context(), name, "select database()"); got != name || err != nil {
			t.Fatalf("database() = %q, %v, want %q", got, err, name)
		}
	})
	if got := asked(t, m, "show databases like '"+name+"'"); got != "" {
		t.Errorf("database %q outlived its test", name)
	}
}
