package saga

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations are those of the table of sagas that wait, for the Migrate function of a store:
//
//	err := pgxstore.Migrate(ctx, pool, saga.Migrations)
var Migrations = migration.Set{Capability: "saga", Files: migrations}
