package pgxstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/storetest"
)

// TestConformanceWithoutLocks is the suite on a server whose advisory locks are granted to all: operations are
// claimed by their commits.
func TestConformanceWithoutLocks(t *testing.T) {
	t.Parallel()
	h := harness(withoutLocks(t))
	h.ClaimsByCommit, h.Brief = true, true
	storetest.Run(t, h)
}

// withoutLocks has the sessions of a pool on a new database use advisory locks that do nothing.
func withoutLocks(t *testing.T) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		conn, err := pgx.ConnectConfig(t.Context(), c.ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), testenv.WithoutAdvisoryLocks); err != nil {
			t.Fatal(err)
		}
		c.ConnConfig.RuntimeParams["search_path"] = testenv.WithoutAdvisoryLocksPath
	}
}
