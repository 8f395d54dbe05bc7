package integration

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	lot "math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"
)

// TestGroupReplication: duplicates reach two members of a group that both take writes. Neither
// sees the claims of the other, and each may lack what the other has committed. COMMIT is refused
// to all but one (3101), and they find its result.
func TestGroupReplication(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	members := startGroup(t, 2)
	if err := members[0].CreateDatabase("app"); err != nil {
		t.Fatal(err)
	}
	var stores []*sqlstore.Store
	for i, m := range members {
		db, err := sqlstore.Open("mysql", m.DSN("app")+"?interpolateParams=true")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if i == 0 {
			if err := sqlstore.Migrate(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "create table effect (run varchar(64) primary key, op varchar(64))"); err != nil {
				t.Fatal(err)
			}
		} else {
			untilQuery(t, m, "select count(*) from information_schema.tables where table_schema = 'app' and table_name = 'effect'", "1")
		}
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}

	const keys, duplicates = 60, 2 // on each member
	var runs atomic.Int64
	for n := range keys {
		key := fmt.Sprint("key-", n)
		var wg sync.WaitGroup
		answers := make([]string, len(stores)*duplicates)
		for i := range answers {
			engine := once.New(stores[i%len(stores)], once.Config{Observer: once.Discard})
			wg.Go(func() {
				answers[i] = answerOf(t, engine, key, &runs)
			})
		}
		wg.Wait()
		for _, a := range answers {
			if a == "" || a != answers[0] {
				t.Fatalf("%s: %q", key, answers)
			}
		}
	}
	if runs.Load() == keys {
		t.Error("no COMMIT was refused: the members have not met")
	}
	for _, m := range members {
		untilQuery(t, m, "select count(*) = count(distinct op) from app.effect", "1")
		untilQuery(t, m, fmt.Sprintf("select count(*) = %d from app.effect", keys), "1")
	}
}

// answerOf asks until there is an answer, which is the run that has committed.
func answerOf(t *testing.T, engine *once.Engine[*sql.Tx], key string, runs *atomic.Int64) string {
	t.Helper()
	for range 100 {
		r, err := once.Do(t.Context(), engine, once.Operation{Scope: "group", Key: key, Wait: 10 * time.Second}, func(ctx context.Context, tx *sql.Tx) (string, error) {
			runs.Add(1)
			run := rand.Text()
			_, err := tx.ExecContext(ctx, "insert into effect (run, op) values (?, ?)", run, key)
			return run, err
		})
		var e *once.Error
		switch {
		case err == nil:
			return r.Value
		case !errors.As(err, &e) || e.Code == once.CodeMismatch:
			t.Error(err)
			return ""
		}
	}
	t.Errorf("%s: no answer", key)
	return ""
}

// startGroup starts servers that replicate each other and all take writes.
func startGroup(t *testing.T, size int) (members []*testenv.MariaDB) {
	t.Helper()
	var seeds []string
	for range size {
		var l net.Listener
		for err := errors.New("none yet"); err != nil; { // below the ports that outgoing connections take
			l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", 10_000+lot.IntN(20_000)))
		}
		seeds = append(seeds, l.Addr().String())
		_ = l.Close()
	}
	for i := range size {
		m := startInnoDB(t, harness.MySQL, testenv.MariaDBConfig{Settings: map[string]string{
			"server-id": fmt.Sprint(i + 1), "log-bin": "on", "gtid-mode": "ON", "enforce-gtid-consistency": "ON", "report-host": "127.0.0.1",
			"performance-schema": "ON", "plugin-load-add": "group_replication.so",
			"loose-group-replication-group-name": "6f1a2b3c-0000-4000-8000-000000000001", "loose-group-replication-start-on-boot": "OFF",
			"loose-group-replication-local-address": seeds[i], "loose-group-replication-group-seeds": strings.Join(seeds, ","), "loose-group-replication-ip-allowlist": "127.0.0.1",
			"loose-group-replication-single-primary-mode": "OFF", "loose-group-replication-enforce-update-everywhere-checks": "ON",
			"loose-group-replication-recovery-get-public-key": "ON",
		}})
		statements := "set sql_log_bin = 0; create user follower@'%' identified by 'x'; grant replication slave, connection_admin, group_replication_stream, backup_admin on *.* to follower@'%'; " +
			"reset binary logs and gtids; set sql_log_bin = 1; change replication source to source_user = 'follower', source_password = 'x' for channel 'group_replication_recovery'; "
		if i == 0 {
			statements += "set global group_replication_bootstrap_group = ON; start group_replication; set global group_replication_bootstrap_group = OFF"
		} else {
			statements += "start group_replication"
		}
		if _, err := m.Query(t.Context(), "", statements); err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	for _, m := range members {
		untilQuery(t, m, "select count(*) from performance_schema.replication_group_members where member_state = 'ONLINE'", fmt.Sprint(size))
	}
	return members
}

// untilQuery waits until a server answers a query with want.
func untilQuery(t *testing.T, m *testenv.MariaDB, query, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		got, err := m.Query(t.Context(), "", query)
		if err == nil && got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %q, %v, not %q", query, got, err, want)
		}
	}
}
