package deadletter

import (
	"embed"

	"github.com/oncelib/once/store/migration"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Migrations contains the migrations of the tables of dead letters, for the Migrate function of a store. Changes
// by operators are written to the audit (the table once_audit), which needs operate.Migrations as well:
//
//	err := pgxstore.Migrate(ctx, pool, operate.Migrations, deadletter.Migrations)
//
// [operate.Migrations]: https://pkg.go.dev/github.com/oncelib/once/operate#Migrations
var Migrations = migration.Set{Capability: "deadletter", Files: migrations}
