//go:build linux

package testenv

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

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
