package kind

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/oncelib/once/store"
)

// tableName finds the table that the message of a database names. A name may follow the name of its schema.
var tableName = regexp.MustCompile(`\bonce_[a-z_]+`)

// owners has the capabilities whose migrations create the tables, by the beginning of the names of the tables. A package with the name
// of the capability has the migrations. The table of operations is in every set.
var owners = []struct{ table, capability string }{
	{"once_attempt", "attemptlog"},
	{"once_audit", "operate"},
	{"once_deadletter", "deadletter"},
	{"once_hold", "outbox"},
	{"once_home", "home"},
	{"once_inbox", "inbox"},
	{"once_intent", "journal"},
	{"once_outbox", "outbox"},
	{"once_receipt", "receipt"},
	{"once_saga", "saga"},
	{"once_stream", "outbox"},
	{"once_webhook", "webhook"},
}

// NotMigrated returns the error for a statement that has failed because a table of this library, or a column of such a table, does not
// exist. migrate is the function of the store that creates the tables, such as "pgxstore.Migrate", and pool is its second argument.
func NotMigrated(err error, migrate, pool string) error {
	try := "once migrate up, or " + migrate
	if names := tableName.FindAllString(err.Error(), -1); len(names) > 0 {
		table := names[len(names)-1] // a database may have such a name as well, and it is named first
		for _, o := range owners {
			if strings.HasPrefix(table, o.table) {
				try = fmt.Sprintf("%s(ctx, %s, %s.Migrations), or once migrate up --only %s", migrate, pool, o.capability, o.capability)
			}
		}
	}
	return fmt.Errorf("%w: %w. Try: %s", store.ErrNotMigrated, err, try)
}
