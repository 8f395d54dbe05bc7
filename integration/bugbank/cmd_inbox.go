package bugbank

// cmdInboxMutants are bugs of package cmd/once/internal/inbox.
var cmdInboxMutants = []Mutant{
	{
		Name:  "a key whose name has a mistake is skipped",
		Edits: []Edit{{In: "inbox.(*skip).plan", Old: "case !p.Known:", New: "case !p.Known && p.Dead:"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestInboxCommands$/^SQLite$"}},
	},
}
