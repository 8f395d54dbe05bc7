package harness

import (
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// All are all kinds of databases.
var All = append([]string{Pgx}, SQL...)

// Servers are all kinds but the one that differs from another one in GroupCommit alone.
var Servers = []string{Pgx, SQLite, Postgres, MariaDB, MySQL}

// Each runs a test on databases of several kinds, one beside the other: Pgx and SQLite are those of make test.
func Each(t *testing.T, kinds []string, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			Cell(t, kind == Pgx || kind == SQLite)
			t.Parallel()
			test(t, kind)
		})
	}
}

// Cell puts a subtest on one of several databases into make test, or else into make prove, which runs one in four of them, by
// lot. A subtest calls it before it starts anything.
func Cell(t *testing.T, inTest bool) {
	t.Helper()
	if inTest {
		testenv.Cell(t, testenv.InTest)
		return
	}
	testenv.Cell(t, testenv.InProve)
	testenv.Sample(t, 4)
}
