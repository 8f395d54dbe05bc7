package bugbank

// cmdOutboxMutants are bugs of package cmd/once/internal/outbox.
var cmdOutboxMutants = []Mutant{
	{
		Name:  "a pause does not wait for --yes",
		Edits: []Edit{{In: "outbox.(*pause).Run", Old: "!c.yes", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestOutboxCommands$/^SQLite$"}},
	},
	{
		Name:  "once outbox renumber needs no --yes",
		Edits: []Edit{{In: "outbox.(*renumber).Run", Old: "if !c.yes {", New: "if c.db == \"-\" {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestAfterARestore"}},
	},
}
