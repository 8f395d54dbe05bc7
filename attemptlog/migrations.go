package attemptlog

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations are the migrations that create the table once_attempt. Pass Migrations to the Migrate function of a
// store:
//
//	err := pgxstore.Migrate(ctx, pool, attemptlog.Migrations)
var Migrations = migration.Set{Capability: "attemptlog", Files: migrations}
