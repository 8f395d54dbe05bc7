package receipt

import (
	"embed"
	"strings"

	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations are the migrations of the table once_receipt. The table belongs in the database of the service.
// The database of the service does not need the tables in which an engine stores operations:
//
//	err := sqlstore.MigrateOnly(ctx, db, receipt.Migrations)
var Migrations = migration.Set{Capability: "receipt", Files: migrations}

// DDL returns the statements that create the table once_receipt, for a service that does not use the
// migrations of this library.
func DDL(d sqlplane.Dialect) (string, error) {
	list, err := migration.All(d, Migrations)
	var w strings.Builder
	for _, m := range list {
		w.WriteString(m.SQL)
	}
	return w.String(), err
}
