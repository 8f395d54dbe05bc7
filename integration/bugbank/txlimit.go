package bugbank

// txlimitMutants are bugs of package internal/sql/txlimit.
var txlimitMutants = []Mutant{
	{
		Name:  "a transaction is idle in the middle of a statement",
		Edits: []Edit{{In: "(*Watch).expire", Old: "w.held && w.calls == 0 && now", New: "w.held && now"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestIdleIsNot", Hangs: true}},
	},
}
