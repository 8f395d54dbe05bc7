package journal

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations are the migrations that create the table once_intent of a [Table]. Pass Migrations to the Migrate function of a
// store:
//
//	err := sqlstore.Migrate(ctx, db, journal.Migrations)
var Migrations = migration.Set{Capability: "journal", Files: migrations}
