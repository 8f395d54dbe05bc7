package kind_test

import (
	"errors"
	"testing"

	"github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/store"
)

// TestHintNamesTheMigrationsOfTheMissingTable: a program that has called Migrate without them learns which ones are missing.
func TestHintNamesTheMigrationsOfTheMissingTable(t *testing.T) {
	t.Parallel()
	const inbox, all = "pgxstore.Migrate(ctx, pool, inbox.Migrations), or once migrate up --only inbox", "once migrate up, or pgxstore.Migrate"
	for said, try := range map[string]string{
		`ERROR: relation "once_inbox_position" does not exist (SQLSTATE 42P01)`:         inbox,
		`ERROR: column "body" of relation "once_inbox" does not exist (SQLSTATE 42703)`: inbox,
		"Error 1146 (42S02): Table 'once_outbox_service.once_inbox' doesn't exist":      inbox,
		"SQL logic error: no such table: once_inbox (1)":                                inbox,
		`ERROR: relation "once_operation" does not exist (SQLSTATE 42P01)`:              all,
		"SQL logic error: no such column: fence (1)":                                    all,
	} {
		cause := errors.New(said)
		err := kind.NotMigrated(cause, "pgxstore.Migrate", "pool")
		if want := "the tables of the library \"once\" do not exist: " + said + ". Try: " + try; err.Error() != want || !errors.Is(err, store.ErrNotMigrated) || !errors.Is(err, cause) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
