package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlplane"
)

// looked writes a look-up to the audit. A failure to write it is a warning: so users without the right to write, and operators of a database that
// accepts no writes, can still look up keys.
func looked(ctx context.Context, m *cli.Env, db *cli.DB, who string, l operate.Access) {
	const patience = 2 * time.Second
	by := operate.By{Who: words.Either(who != "", who, "unknown")}
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	if db.Dialect == sqlplane.SQLite { // its driver does not notice the end of a context while it waits for the file
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(bound, "pragma busy_timeout = 1000")
	}
	if err == nil {
		err = db.Keys.Looked(bound, by, l)
	}
	if err == nil {
		return
	}
	if sqlguard.IsMissing(err) {
		fmt.Fprintf(m.Stderr, "note: your look-up was not written to the audit, because the database has no table for the audit. Try: once migrate up --only %s --db %s\n", operate.Migrations.Capability, db.Paste)
		return
	}
	fmt.Fprintf(m.Stderr, "note: your look-up was not written to the audit: %v. Try: use the --db URL of a database user who may insert into the table once_audit\n", err)
}
