package webhook

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations contains the migrations of the tables of [Hooks], for the Migrate function of a store:
//
//	err := pgxstore.Migrate(ctx, pool, webhook.Migrations)
var Migrations = migration.Set{Capability: "webhook", Files: migrations}
