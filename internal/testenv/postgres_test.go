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
	if conn, err := net.Dial("tcp", pg.Addr()); err == nil {
		conn.Close()
		t.Error("the port still answers")
	}
}

func TestStartReportsTheLog(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql")
	pg, err := StartPostgres(t.Context(), PostgresConfig{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil {
		_ = pg.Close()
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
		_ = pg.Close()
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
