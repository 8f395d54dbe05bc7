//go:build linux

package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startPostgres starts a server of the test's own.
func startPostgres(t *testing.T, settings map[string]string) *Postgres {
	t.Helper()
	Need(t, "postgresql")
	pg, err := StartPostgres(t.Context(), PostgresConfig{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	return pg
}

func query(t *testing.T, pg *Postgres, sql string) string {
	t.Helper()
	out, err := pg.Query(t.Context(), superuser, sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPostgresAnswersAndIsConfigured(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, map[string]string{"Work_Mem": "7MB", "application_name": "it's me"})
	for sql, want := range map[string]string{
		"show fsync":              "on",
		"show synchronous_commit": "on",
		"show max_connections":    "300",
		"show work_mem":           "7MB",
		"show timezone":           "UTC",
		"show server_encoding":    "UTF8",
		"show lc_collate":         "C.UTF-8",
		"show data_directory":     pg.DataDir(),
		"select 1, 'a' union all select 2, 'b' order by 1": "1|a\n2|b",
	} {
		if got := query(t, pg, sql); got != want {
			t.Errorf("%s = %q, want %q", sql, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(pg.SocketDir(), fmt.Sprintf(".s.PGSQL.%d", pg.Port()))); err != nil {
		t.Error("no Unix socket:", err)
	}
	if want := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/some%%20name?sslmode=disable", pg.Port()); pg.URL("some name") != want {
		t.Errorf("URL = %s, want %s", pg.URL("some name"), want)
	}
	if log, err := os.ReadFile(pg.LogPath()); err != nil || !strings.Contains(string(log), "ready to accept connections") {
		t.Errorf("log: %v\n%s", err, log)
	}
}

func TestQueryReportsTheError(t *testing.T) {
	t.Parallel()
	_, err := SharedPostgres(t).Query(t.Context(), superuser, "select 1; select 1/0; select 2")
	if err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Fatalf("err = %v, want division by zero", err)
	}
}

// TestKillKeepsCommittedData crashes the server under load: every row whose
// COMMIT was acknowledged must be there afterwards.
func TestKillKeepsCommittedData(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, nil)
	query(t, pg, "create table rows (n int primary key)")

	first := make(chan struct{}) // closed when rows begin to be acknowledged
	acked := make(chan int)
	go func() {
		defer close(acked)
		for n := 1; ; n++ {
			if _, err := pg.Query(context.Background(), superuser, fmt.Sprintf("insert into rows values (%d)", n)); err != nil {
				return
			}
			acked <- n
			if n == 3 {
				close(first)
			}
		}
	}()
	count := 0
	done := make(chan struct{})
	go func() {
		for n := range acked {
			count = n
		}
		close(done)
	}()
	<-first
	pid, port := pg.Pid(), pg.Port()
	backends := query(t, pg, "select count(*) from pg_stat_activity")
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	if pg.Pid() != 0 {
		t.Error("Pid is not 0 after Kill")
	}
	<-done
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pg.Port() != port || pg.Pid() == pid || pg.Pid() == 0 {
		t.Errorf("after Restart: port %d, was %d; pid %d, was %d", pg.Port(), port, pg.Pid(), pid)
	}
	if got := query(t, pg, fmt.Sprintf("select count(*) from rows where n <= %d", count)); got != fmt.Sprint(count) {
		t.Errorf("%s of %d acknowledged rows survived", got, count)
	}
	if log, err := os.ReadFile(pg.LogPath()); err != nil || !strings.Contains(string(log), "database system was not properly shut down") {
		t.Errorf("no crash recovery in the log (%v): Kill was no crash", err)
	}
	t.Logf("%d rows acknowledged before the crash, %s processes killed", count, backends)
}

// TestKillLeavesNoBackend holds a transaction open: a backend that outlived the
// postmaster would block the restart.
func TestKillLeavesNoBackend(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := pg.Query(ctx, superuser, "begin; create table open_tx (n int); select pg_advisory_lock(42); select pg_sleep(600)")
		ended <- err
	}()
	for query(t, pg, "select count(*) from pg_locks where locktype = 'advisory' and granted") != "1" {
	}
	pid := pg.Pid()
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the session survived the crash")
	}
	if left := processesIn(t, pg.DataDir()); len(left) > 0 {
		t.Errorf("processes %v of postmaster %d survived Kill", left, pid)
	}
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, pg, "select to_regclass('open_tx') is null"); got != "t" {
		t.Error("an open transaction survived the crash")
	}
}

// TestRestartAfterForeignKill kills only the postmaster, from outside, while a
// backend is too busy to notice: that backend would keep the shared memory.
func TestRestartAfterForeignKill(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := pg.Query(context.Background(), superuser, "select count(*) from generate_series(1, 1e12) as busy")
		ended <- err
	}()
	for query(t, pg, "select count(*) from pg_stat_activity where query like '%as busy' and pid <> pg_backend_pid()") != "1" {
	}
	if err := syscall.Kill(pg.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-pg.server.done
	if pg.Pid() != 0 {
		t.Error("Pid of a dead server is not 0")
	}
	if len(processesIn(t, pg.DataDir())) == 0 {
		t.Error("no backend survived its postmaster: the test proves nothing")
	}
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the session survived")
	}
}

func TestStopAndRestart(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, nil)
	query(t, pg, "create table kept as select 1 as n")
	if err := pg.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := pg.WaitReady(t.Context()); err == nil {
		t.Error("WaitReady on a stopped server succeeded")
	}
	for range 2 { // the second one restarts a running server
		if err := pg.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := query(t, pg, "select n from kept"); got != "1" {
			t.Errorf("kept row = %q", got)
		}
	}
	if log, _ := os.ReadFile(pg.LogPath()); strings.Contains(string(log), "not properly shut down") {
		t.Error("Stop was a crash")
	}
}

// TestWaitReadyAfterBackendCrash kills one backend: the postmaster ends all
// sessions and recovers by itself.
func TestWaitReadyAfterBackendCrash(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, nil)
	_, err := pg.Query(t.Context(), superuser, "copy (select pg_backend_pid()) to program 'read pid; kill -9 $pid'; select pg_sleep(600)")
	if err == nil {
		t.Fatal("the backend survived kill -9")
	}
	if err := pg.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, pg, "select 1"); got != "1" {
		t.Errorf("select 1 = %q", got)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, nil)
	janitor := pg.dir.janitor.pid()
	for range 2 {
		if err := pg.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(pg.dir.path); !os.IsNotExist(err) {
		t.Error("the directory is still there:", err)
	}
	if err := waitGone(janitor); err != nil {
		t.Error("janitor:", err)
	}
	if err := pg.Restart(t.Context()); err == nil {
		t.Error("a closed server restarted")
	}
	if conn, err := net.Dial("tcp", pg.Addr()); err == nil { //nolint:noctx // loopback
		conn.Close()
		t.Error("the port still answers")
	}
}

func TestStartReportsTheLog(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql")
	pg, err := StartPostgres(t.Context(), PostgresConfig{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil {
		pg.Close()
		t.Fatal("a wrong setting was accepted")
	}
	if !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("the error hides the reason: %v", err)
	}
}

func TestStartObeysTheContext(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if pg, err := StartPostgres(ctx, PostgresConfig{}); err == nil {
		pg.Close()
		t.Fatal("a whole cluster in 50 ms?")
	} else if !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("err = %v", err)
	}
}

func TestParallelUse(t *testing.T) {
	t.Parallel()
	pg := SharedPostgres(t)
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			name := databaseName(fmt.Sprintf("%s/%d", t.Name(), n))
			if err := pg.CreateDatabase(name); err != nil {
				t.Error(err)
				return
			}
			if got, err := pg.Query(t.Context(), name, "create table t as select 1 as n; select n from t"); got != "1" || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if err := pg.DropDatabase(name); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
