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
		Edits: []Edit{{File: "pgxstore/txn.go", Old: "	_, err := t.raw.open(ctx, statement{})\n	if err == nil {", New: "	var err error\n	if t.raw.opening == nil {"}},
		Tests: in("pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "what is sent on the connection runs before BEGIN",
		Edits: []Edit{{File: "pgxstore/session.go", Old: "		_, _ = s.open(ctx, statement{})", New: "		_ = ctx"}},
		Tests: in("pgxstore", "TestAFirstAttemptOpensWithItsFirstStatement"),
	},
	{
		Name:  "rows of an earlier handler end those of the next one",
		Edits: []Edit{{File: "pgxstore/along.go", Old: "	if r.closed {\n		return\n	}\n", New: ""}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestRowsOfAnEarlierHandler", Hangs: true}},
	},
	{
		Name:  "a first attempt on a broken connection fails",
		Edits: []Edit{{File: "pgxstore/opening.go", Old: "	case ctx.Err() == nil:\n		kind = store.Retry", New: "	case ctx.Err() == nil:\n		kind = store.Busy"}},
		Tests: in("pgxstore", "TestAFirstAttemptOnABrokenConnection"),
	},
	{
		Name:  "a statement runs while the transaction is opened, or after a panic",
		Edits: []Edit{{File: "pgxstore/opening.go", Old: "s.opening, s.refused = nil, errOpening", New: "s.opening, s.refused = nil, nil"}},
		Tests: in("pgxstore", "TestNothingRunsBeforeTheTransactionIsOpen"),
	},
	{
		Name:  "a transaction that could not be opened leaves its connection open",
		Edits: []Edit{{File: "pgxstore/opening.go", Old: "	if s.conn.PgConn().TxStatus() == 'I' {\n		_ = s.conn.Close(ctx)\n	}\n", New: ""}},
		Tests: in("pgxstore", "TestNothingRunsWithoutATransaction"),
	},
	{
		Name:  "a first statement that its migration has outdated fails",
		Edits: []Edit{{File: "pgxstore/opening.go", Old: "		s.refuse(ctx, err)\n		return s.refused\n	case misfit", New: "		return err\n	case misfit"}},
		Tests: in("pgxstore", "TestAFirstStatementAfterAMigration"),
	},
	{
		Name:  "a first statement is prepared without bounds",
		Edits: []Edit{{File: "pgxstore/opening.go", Old: "p.known[sql] != nil || ", New: "p.known[sql] != nil || true || "}},
		Tests: in("pgxstore", "TestAFirstStatementIsBounded"),
	},
	{
		Name:  "a query that fails has no rows to read the error from",
		Edits: []Edit{{File: "pgxstore/session.go", Old: "		return refusedRows{err}, err\n	}\n	if along", New: "		return nil, err\n	}\n	if along"}},
		Tests: in("pgxstore", "TestRowsAreThereDespiteAnError"),
	},
	{
		Name:  "a failure that was made of a claim that was refused is kept",
		Edits: []Edit{{File: "exec.go", Old: "store.Retry, store.Busy, store.Taken:\n			return c.committed", New: "store.Retry, store.Busy:\n			return c.committed"}},
		Tests: in("pgxstore", "TestAFailureOfWhomTheClaimWasRefused"),
	},
}
