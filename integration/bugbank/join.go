package bugbank

// joins are bugs of what runs inside of another handler, or behind another call.
var joins = []Mutant{
	{
		Name:  "a joined handler may commit its caller's transaction",
		Edits: []Edit{{In: "sqlstore.(*joined).began", Old: "j.inHandler = j.guard.ForbidCommit()", New: "j.inHandler = true"}},
		Tests: []Killer{{Module: "integration", Test: "TestConformance$/^SQLite$/^Join$/^HandlerEnds"}},
	},
	{
		Name:  "a join gives away what an outer handler has been lent",
		Edits: []Edit{{In: "(*joined).takeBack", Old: "if !j.inHandler {", New: "{"}},
		Tests: []Killer{{Module: "integration", Test: "TestConformance$/^SQLite$/^Join$/^HandlerEnds"}},
	},
	{
		Name: "a join whose transaction is gone counts as undone, on pgx",
		Edits: []Edit{
			{In: "pgxstore.(*joined).undo", Old: "if over(err) {", New: "if false {"},
			{In: "pgxstore.(*joined).send", Old: "case over(err):", New: "case false:"},
		},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestConformance$/./^Join$/^HandlerEnds"}},
	},
	{
		Name:  "followers wait for the store one after another",
		Edits: []Edit{{In: "flight.(*Flight).Wait", Old: "leaderLeft && f.refused != nil", New: "leaderLeft && f.refused != nil && false"}},
		Tests: in("", "TestFollowersShareARefusal"),
	},
	{
		Name:  "a follower is refused because its leader has less patience",
		Edits: []Edit{{In: "flight.(*Flight).Wait", Old: "f.terms == p.Terms", New: "f.terms.Isolation == p.Terms.Isolation"}},
		Tests: in("", "TestARefusalOfTheLeadersOwn"),
	},
}
