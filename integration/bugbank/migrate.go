package bugbank

// migrateMutants are bugs of package cmd/once/internal/migrate.
var migrateMutants = []Mutant{
	{
		Name:  "migrate up --only makes the tables of operations as well",
		Edits: []Edit{{In: "migrate.(*up).Run", Old: "sqlstore.MigrateOnly(", New: "sqlstore.Migrate("}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestMigrateOnly"}},
	},
	{
		Name:  "the hint for a table names no migrations",
		Edits: []Edit{{In: "kind.NotMigrated", Old: "strings.HasPrefix(table, o.table)", New: "table == \"\""}},
		Tests: in("internal/sql/kind", "TestHintNamesTheMigrationsOfTheMissingTable"),
	},
	{
		Name:  "the hint for a table is that of its database",
		Edits: []Edit{{In: "kind.NotMigrated", Old: "names[len(names)-1]", New: "names[0]"}},
		Tests: in("internal/sql/kind", "TestHintNamesTheMigrationsOfTheMissingTable"),
	},
}
