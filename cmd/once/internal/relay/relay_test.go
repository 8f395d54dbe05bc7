package relay

import (
	"path/filepath"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store/sqlstore"
)

// TestRelayWritesLetters: the relay of the command keeps letters if there are tables for them, and works without.
func TestRelayWritesLetters(t *testing.T) {
	t.Parallel()
	db, err := cli.OpenDatabase(t.Context(), filepath.Join(t.TempDir(), "once.db"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := sqlstore.Migrate(t.Context(), db.DB, migrate.Capabilities...); err != nil {
		t.Fatal(err)
	}
	d := relayDB{Database: db}
	if err := d.hasLetters(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := db.ExecContext(t.Context(), "drop table once_deadletter_attempt"); err != nil {
		t.Fatal(err)
	}
	if err := d.hasLetters(t.Context()); !sqlguard.IsMissing(err) {
		t.Error(err)
	}
}
