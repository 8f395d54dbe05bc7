package bugbank

// joins are bugs of what runs inside of another handler, or behind another call.
var joins = []Mutant{
	{
		Name:  "a joined handler may commit its caller's transaction",
		Edits: []Edit{{File: "store/sqlstore/join.go", Old: "j.lent = j.guard.Hold()", New: "j.lent = true"}},
		Tests: []Killer{{Module: "internal/torture", Test: "TestConformance$/^sqlstore-sqlite$/^Join$/^HandlerEnds"}},
	},
	{
		Name:  "a join gives away what an outer handler has been lent",
		Edits: []Edit{{File: "store/sqlstore/join.go", Old: "if !j.lent {", New: "{"}},
		Tests: []Killer{{Module: "internal/torture", Test: "TestConformance$/^sqlstore-sqlite$/^Join$/^HandlerEnds"}},
	},
	{
		Name: "a join whose transaction is gone counts as undone, on pgx",
		Edits: []Edit{
			{File: "pgxstore/join.go", Old: "		if over(err) {", New: "		if false {"},
			{File: "pgxstore/join.go", Old: "pgsql.DivisionByZero, over(err):", New: "pgsql.DivisionByZero:"},
		},
		Tests: []Killer{{Module: "pgxstore", Test: "TestConformance$/./^Join$/^HandlerEnds"}},
	},
	{
		Name:  "followers wait for the store one after another",
		Edits: []Edit{{File: "exec.go", Old: "case !busy && c.shares(fl.refused()):", New: "case false:"}},
		Tests: in("", "TestFollowersShareARefusal"),
	},
	{
		Name:  "a follower is refused because its leader has less patience",
		Edits: []Edit{{File: "exec.go", Old: "r.timeouts == c.op.Timeouts.Or(c.e.cfg.Timeouts) &&", New: ""}},
		Tests: in("", "TestARefusalOfTheLeadersOwn"),
	},
}
