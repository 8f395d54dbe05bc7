package bugbank

// migrateMutants are bugs of package cmd/once/internal/migrate.
var migrateMutants = []Mutant{
	{
		Name:  "migrate up --only makes the tables of operations as well",
		Edits: []Edit{{In: "migrate.(*up).Run", Old: "sqlstore.MigrateOnly(", New: "sqlstore.Migrate("}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestMigrateOnly"}},
	},
}
