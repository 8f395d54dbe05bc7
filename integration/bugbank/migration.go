package bugbank

// migrationMutants are bugs of package store/migration.
var migrationMutants = []Mutant{
	{
		Name:  "an upgrade forgets which capability a version of once_migration was",
		Edits: []Edit{{In: "migration.earlier", Old: `{Capability: "operate", Version: 1, Name: "audit"}`, New: `{Capability: "operate", Version: 2, Name: "audit"}`}},
		Tests: []Killer{{Module: "integration", Test: "TestUpgradeKeepsAllRows"}},
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
		Name:  "what was noted under the earlier name of a capability is forgotten",
		Edits: []Edit{{In: "readSchema", Old: "cmp.Or(renamed[capability], capability)", New: "cmp.Or(capability, renamed[capability])"}},
		Tests: []Killer{{Module: "integration", Package: "", Test: "TestRenamedCapability"}},
	},
}
