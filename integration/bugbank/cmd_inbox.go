package bugbank

// cmdInboxMutants are bugs of package cmd/once/internal/inbox.
var cmdInboxMutants = []Mutant{
	{
		Name:  "a parked message without an ID is not found by its number",
		Edits: []Edit{{In: "inbox.(*finding).byNumber", Old: `case m.ID == "":`, New: `case m.ID == "" && m.Seq < 0:`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestFollowCommands$/^SQLite$"}},
	},
	{
		Name:  "a key whose name has a mistake is skipped",
		Edits: []Edit{{In: "inbox.(*skip).plan", Old: "case !p.Known:", New: "case !p.Known && p.Dead:"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestInboxCommands$/^SQLite$"}},
	},
}
