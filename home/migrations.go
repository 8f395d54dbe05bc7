package home

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations are the migrations that create the tables of this package. Pass Migrations to the Migrate function of a
// store:
//
//	err := pgxstore.Migrate(ctx, pool, home.Migrations)
var Migrations = migration.Set{Capability: "home", Files: migrations}
