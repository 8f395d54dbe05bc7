package outbox

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations contains the migrations of the tables of the outbox and its relays, for the Migrate function of a
// store:
//
//	err := pgxstore.Migrate(ctx, pool, outbox.Migrations)
var Migrations = migration.Set{Capability: "outbox", Files: migrations}
