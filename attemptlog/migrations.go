package attemptlog

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations are those of the table once_attempt, for the Migrate function of a store:
//
//	err := pgxstore.Migrate(ctx, pool, attemptlog.Migrations)
var Migrations = migration.Set{Capability: "attemptlog", Files: migrations}
