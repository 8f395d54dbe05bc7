package saga

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations contains the migrations of the table of waiting sagas, for the Migrate function of a store:
//
//	err := pgxstore.Migrate(ctx, pool, saga.Migrations)
var Migrations = migration.Set{Capability: "saga", Files: migrations}
