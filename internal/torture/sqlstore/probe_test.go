package sqlstore

import (
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"
)

// TestAServerWithoutClaimsIsRefused: a PostgreSQL that accepts advisory locks and does nothing,
// as CockroachDB, is refused at start.
func TestAServerWithoutClaimsIsRefused(t *testing.T) {
	dsn := testenv.NewDatabase(t)
	honest, err := sqlstore.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = honest.Close() })
	if _, err := honest.ExecContext(t.Context(), testenv.WithoutAdvisoryLocks); err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Migrate(t.Context(), honest); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.New(t.Context(), honest, sqlstore.Config{}); err != nil {
		t.Fatal(err)
	}
	lying, err := sqlstore.Open("pgx", dsn+"&search_path="+testenv.WithoutAdvisoryLocksPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lying.Close() })
	_, err = sqlstore.New(t.Context(), lying, sqlstore.Config{})
	for _, err := range []error{err, sqlstore.Migrate(t.Context(), lying)} {
		if err == nil || !strings.Contains(err.Error(), "Try: PostgreSQL itself") {
			t.Error(err)
		}
	}
}
