package inbox

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations contains the migrations of the tables of the inbox, for the Migrate function of a store:
//
//	err := pgxstore.Migrate(ctx, pool, inbox.Migrations, deadletter.Migrations)
var Migrations = migration.Set{Capability: "inbox", Files: migrations}
