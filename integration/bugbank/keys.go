package bugbank

// keysMutants are bugs of package cmd/once/internal/keys.
var keysMutants = []Mutant{
	{
		Name:  "an empty list of all operations speaks of such operations",
		Edits: []Edit{{In: "keys.(*list).Run", Old: `c.filter.Scope+c.filters()+c.filter.After == ""`, New: `c.filter.Scope == "-"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestEmptyListsSayWhatTheyAre"}},
	},
	{
		Name:  "a replay prints the names of a file as they are",
		Edits: []Edit{{In: "keys.(*replay).Run", Old: "words.Shown(name), words.Quoted(words.Shown(name)+\": ...\")", New: "name, name"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestReplayPrintsNoEscapes"}},
	},
	{
		Name:  "others can read an exported request",
		Edits: []Edit{{In: "writeNew", Old: "0o600", New: "0o644"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestExportLeavesSecretsOut"}},
	},
	{
		Name:  "an export is not audited",
		Edits: []Edit{{In: "keys.(*export).Run", Old: `looked(ctx, m, db, c.who, operate.Access{Scope: op.Scope, Key: op.Key, Detail: "its request, exported"})`, New: "_ = operate.Access{}"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestExportLeavesSecretsOut"}},
	},
}
