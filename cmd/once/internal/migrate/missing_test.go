package migrate

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

var created = regexp.MustCompile(`create table (once_[a-z_]+)`)

// TestHintOfEachTableNamesItsCapability: the error of a statement on a missing table names the migrations that create the table.
func TestHintOfEachTableNamesItsCapability(t *testing.T) {
	t.Parallel()
	list, err := migration.All(sqlplane.PostgreSQL, Capabilities...)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, m := range list {
		for _, table := range created.FindAllStringSubmatch(m.SQL, -1) {
			seen++
			want := "sqlstore.Migrate(ctx, db, " + m.Capability + ".Migrations), or once migrate up --only " + m.Capability
			if m.Capability == migration.Operation.Capability {
				want = "once migrate up, or sqlstore.Migrate"
			}
			if err := kind.NotMigrated(errors.New("no such table: "+table[1]), "sqlstore.Migrate", "db"); !strings.HasSuffix(err.Error(), ". Try: "+want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	if seen < 20 {
		t.Errorf("vacuous: %d tables", seen)
	}
}
