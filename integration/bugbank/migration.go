package bugbank

// migrationMutants are bugs of the migrations and of upgrades.
var migrationMutants = []Mutant{
	{
		Name:  "an upgrade forgets which capability a version of once_migration was",
		Edits: []Edit{{In: "migration.earlier", Old: `{Capability: "operate", Version: 1, Name: "audit"}`, New: `{Capability: "operate", Version: 2, Name: "audit"}`}},
		Tests: []Killer{{Module: "integration", Test: "TestUpgrade"}},
	},
	{
		Name:  "what once_migration says is looked at once only",
		Edits: []Edit{{In: "migration.readSchema", Old: `slices.Contains(tables, "once_migration")`, New: `slices.Contains(tables, "once_migration") && !slices.Contains(tables, "once_schema")`}},
		Tests: []Killer{{Module: "integration", Test: "TestUpgradeFromTheMiddle"}, {Module: "integration", Test: "TestUpgradeKilled"}},
	},
	{
		Name:  "only a newer store is refused, and no other capability",
		Edits: []Edit{{In: "(schema).status", Old: "newest > known[set.Capability]", New: `newest > known[set.Capability] && set.Capability == "operation"`}},
		Tests: []Killer{{Module: "integration", Test: "TestNewerDatabaseIsRefused"}},
	},
	{
		Name:  "a killed upgrade of MariaDB does not get over a column that is there",
		Edits: []Edit{{In: "(migrating).execMySQL", Old: "case 1050, 1060, 1061, 1091:", New: "case 1050, 1061:"}},
		Tests: []Killer{{Module: "integration", Test: "TestUpgradeKilled"}},
	},
	{
		Name:  "a node that has waited for the lock migrates with an old snapshot",
		Edits: []Edit{{In: "pgxstore.Migrate", Old: "pgx.TxOptions{IsoLevel: pgx.ReadCommitted}", New: "pgx.TxOptions{}"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestMigrateTogether"}},
	},
	{
		Name:  "a node that has waited for the lock migrates with an old snapshot, under database/sql",
		Edits: []Edit{{In: "sqlstore.MigrateOnly", Old: "opts.Isolation = store.ReadCommitted", New: "opts.Isolation = store.DefaultIsolation"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestMigrateTogether"}},
	},
	{
		Name:  "what was noted under the earlier name of a capability is forgotten",
		Edits: []Edit{{In: "readSchema", Old: "cmp.Or(renamed[capability], capability)", New: "cmp.Or(capability, renamed[capability])"}},
		Tests: []Killer{{Module: "integration", Package: "", Test: "TestRenamedCapability"}},
	},
	{
		Name:  "migrate up --only makes the tables of operations as well",
		Edits: []Edit{{In: "migrate.(*up).Run", Old: "sqlstore.MigrateOnly(", New: "sqlstore.Migrate("}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestMigrateOnly"}},
	},
	{
		Name:  "a process that was killed while it made the tables of webhooks leaves tables that no upgrade gets over",
		Edits: []Edit{{In: "(migrating).execMySQL", Old: "case 1050, 1060, 1061, 1091:", New: "case 1060, 1061, 1091:"}},
		Tests: []Killer{{Module: "integration", Test: "TestWebhookUpgradeKilled$/^MariaDB$"}},
	},
}
