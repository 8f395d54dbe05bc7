package bugbank

// openingMutants put the claim of a first attempt off, and then do without it.
var openingMutants = []Mutant{
	{
		Name:  "a first statement runs without the claim",
		Edits: []Edit{{File: "internal/pgsql/pgsql.go", Old: "select now(), 1 / pg_try_advisory_xact_lock($1)::int = 1", New: "select now(), pg_try_advisory_xact_lock($1) as granted"}},
		Tests: in("pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "a handler that hides why its first statement failed is believed",
		Edits: []Edit{{File: "pgxstore/txn.go", Old: "		t.abandon(ctx)\n		return t.raw.refused", New: "		t.abandon(ctx)\n		return nil"}},
		Tests: in("pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "a claim that was put off and is somebody else's is a failure",
		Edits: []Edit{{File: "exec.go", Old: "			c.beaten, err = true, end", New: "			err = errors.Join(err, end)"}},
		Tests: in("pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "a handler without a statement commits what it has not claimed",
		Edits: []Edit{{File: "pgxstore/txn.go", Old: "	_, err := t.raw.open(ctx, \"\")\n	if err == nil {", New: "	var err error\n	if t.raw.opening == nil {"}},
		Tests: in("pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "what is sent on the connection runs before BEGIN",
		Edits: []Edit{{File: "pgxstore/session.go", Old: "		_, _ = s.open(context.Background(), \"\")", New: "		_ = s.opening"}},
		Tests: in("pgxstore", "TestAFirstAttemptOpensWithItsFirstStatement"),
	},
	{
		Name:  "rows of an earlier handler end those of the next one",
		Edits: []Edit{{File: "pgxstore/opening.go", Old: "	if r.closed {\n		return\n	}\n", New: ""}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestRowsOfAnEarlierHandler", Hangs: true}},
	},
	{
		Name:  "a first attempt on a broken connection fails",
		Edits: []Edit{{File: "pgxstore/opening.go", Old: "	case ctx.Err() == nil:\n		kind = store.Retry", New: "	case ctx.Err() == nil:\n		kind = store.Busy"}},
		Tests: in("pgxstore", "TestAFirstAttemptOnABrokenConnection"),
	},
}
