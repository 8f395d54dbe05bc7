package sqlstore

import (
	"bytes"
	"database/sql"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// withPath opens a new database of PostgreSQL in which create has run, with a search path.
func withPath(t *testing.T, create, path string) *sql.DB {
	t.Helper()
	dsn := testenv.NewDatabase(t)
	plain, err := sqlstore.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.ExecContext(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	db, err := sqlstore.Open("pgx", dsn+"&search_path="+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestAServerWithoutLocks: on a PostgreSQL that accepts advisory locks and does nothing, operations are claimed by their
// commits, and the log says so once. A server that keeps them and does not list them is used as any other.
func TestAServerWithoutLocks(t *testing.T) { // not parallel: the log is that of the process
	for _, c := range []struct {
		name, create, path string
		byCommit           bool
	}{
		{"no locks", testenv.WithoutAdvisoryLocks, testenv.WithoutAdvisoryLocksPath, true},
		{"unlisted locks", testenv.UnlistedLocks, testenv.UnlistedLocksPath, false},
	} {
		db := withPath(t, c.create, c.path)
		db.SetMaxOpenConns(1)
		if err := sqlstore.Migrate(t.Context(), db); err != nil {
			t.Fatal(c.name, err)
		}
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		if err != nil {
			t.Fatal(c.name, err)
		}
		for range 2 {
			txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: once.NewKey()}})
			if err != nil {
				t.Fatal(c.name, err)
			}
			if claimer, _ := store.As[store.CommitClaimer](txn); claimer.ClaimsByCommit() != c.byCommit {
				t.Errorf("%s: the transaction claims by its commit: %t", c.name, !c.byCommit)
			}
			if err := txn.Rollback(t.Context()); err != nil {
				t.Error(c.name, err)
			}
		}
		slog.SetDefault(before)
		if said := strings.Count(log.String(), "keeps no advisory locks"); (said == 1) != c.byCommit || said > 1 {
			t.Errorf("%s: said %d times: %s", c.name, said, log.String())
		}
	}
}

// TestMigrationsTogetherWithoutLocks: a node that migrates while another one has not committed yet, on a server without
// advisory locks, finds the tables of that one and succeeds.
func TestMigrationsTogetherWithoutLocks(t *testing.T) {
	t.Parallel()
	db := withPath(t, testenv.WithoutAdvisoryLocks, testenv.WithoutAdvisoryLocksPath)
	list, err := migration.All(sqlplane.PostgreSQL, migration.Operation)
	if err != nil {
		t.Fatal(err)
	}
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		for _, text := range []string{m.SQL, m.Noted()} {
			if _, err := other.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	migrated := make(chan error, 1)
	go func() { migrated <- sqlstore.Migrate(t.Context(), db) }()
	for waits := 0; waits == 0; {
		err := db.QueryRowContext(t.Context(), `select count(*) from pg_stat_activity a join pg_locks l using (pid)
 where a.datname = current_database() and not l.granted`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
	if _, err := sqlstore.New(t.Context(), db, sqlstore.Config{}); err != nil {
		t.Error(err)
	}
}
