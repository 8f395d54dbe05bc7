package sqlstore

import (
	"bytes"
	"database/sql"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
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
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		slog.SetDefault(before)
		if err != nil {
			t.Fatal(c.name, err)
		}
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
		if said := strings.Count(log.String(), "keeps no advisory locks"); (said == 1) != c.byCommit || said > 1 {
			t.Errorf("%s: said %d times: %s", c.name, said, log.String())
		}
	}
}

// TestMigrationsTogetherWithoutLocks: nodes that start together on a server without advisory locks all migrate it.
func TestMigrationsTogetherWithoutLocks(t *testing.T) {
	t.Parallel()
	db := withPath(t, testenv.WithoutAdvisoryLocks, testenv.WithoutAdvisoryLocksPath)
	var nodes sync.WaitGroup
	start := make(chan struct{})
	for range 4 {
		nodes.Go(func() {
			<-start
			if err := sqlstore.Migrate(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	nodes.Wait()
	if _, err := sqlstore.New(t.Context(), db, sqlstore.Config{}); err != nil {
		t.Error(err)
	}
}
