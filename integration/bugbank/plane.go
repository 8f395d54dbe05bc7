package bugbank

// planeSuite are the cases of the SQL plane on a store of database/sql.
func planeSuite(store, test string) []Killer {
	return []Killer{{Module: "integration", Test: "TestConformance$/^" + store + "$/^SQL$/^" + test}}
}

func planeTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "sqlstore", Test: test}}
}

// planeMutants are bugs of the statements that capabilities run through a store.
var planeMutants = []Mutant{
	{
		Name:  "an error that the driver was not asked about is unknown to the guard",
		Edits: []Edit{{In: "sqlstore.(*txRunner).guarded", Old: "sqlguard.FailTx(ctx, r.tx, st.SQL, err)", New: ""}},
		Tests: append(planeSuite("SQLite", "Cancelled"), planeSuite("PostgreSQL,_sqlstore", "Handler")...),
	},
	{
		Name:  "a transaction of an unguarded database is taken for a guarded one",
		Edits: []Edit{{In: "sqlguard.(*Txn).JoinTx", Old: "!guarded && !errors.Is(err, sql.ErrTxDone)", New: "!guarded && errors.Is(err, sql.ErrNoRows)"}},
		Tests: planeTest("TestPlaneRefusesUnguarded"),
	},
	{
		Name:  "a transaction that cannot be joined is left to its caller",
		Edits: []Edit{{In: "sqlguard.(*Txn).JoinTx", Old: "c.tx.txn, t.isolation = t, c.tx.isolation", New: ""}},
		Tests: []Killer{{Module: ".", Package: "internal/sql/sqlguard", Test: "TestJoinTxFails"}},
	},
	{
		Name:  "a guarded transaction is asked whether it is open, before every statement of a capability",
		Edits: []Edit{{In: "sqlguard.(*conn).ExecContext", Old: "if query == visitText {", New: "if query == visitText && c.tx == nil {"}},
		Tests: planeTest("TestPlaneRoundTrips"),
	},
	{
		Name:  "a statement whose answer is lost counts as one that was not applied",
		Edits: []Edit{{In: "sqlstore.(poolRunner).run", Old: "store.KindLost", New: "store.KindUnavailable"}},
		Tests: planeTest("TestPlaneLostAnswers"),
	},
	{
		Name:  "a statement that could not be read counts as applied",
		Edits: []Edit{{In: "sqlstore.(poolRunner).run", Old: "unsent, reads(st),", New: "unsent,"}},
		Tests: planeTest("TestPlaneLostAnswers"),
	},
	{
		Name:  "a statement that only reads waits for the writers of SQLite",
		Edits: []Edit{{In: "(poolRunner).needsTx", Old: "&& !reads(st)", New: ""}},
		Tests: planeTest("TestPlaneOnSQLite"),
	},
	{
		Name:  "a statement with too few rows is refused when it has been applied",
		Edits: []Edit{{In: "(poolRunner).needsTx", Old: "st.Rows > 0 ||", New: ""}},
		Tests: planeSuite("PostgreSQL,_sqlstore", "Errors"),
	},
	{
		Name:  "what travels with a change is sent as it comes",
		Edits: []Edit{{In: "sqlstore.(*Store).writes", Old: "sqlplane.InLockOrder(writes)", New: "writes"}},
		Tests: planeSuite("SQLite", "Append"),
	},
	{
		Name:  "a transaction of a capability commits what its function has refused",
		Edits: []Edit{{In: "sqlstore.(*Store).Within", Old: "if err == nil {\n\t\treturn t.Commit", New: "if true {\n\t\treturn t.Commit"}},
		Tests: planeSuite("SQLite", "Within"),
	},
	{
		Name:  "milliseconds are taken for microseconds",
		Edits: []Edit{{In: "dialect.ago", Old: `" - " + microseconds + " / 1000)"`, New: `" - " + microseconds + ")"`}},
		Tests: planeSuite("SQLite", "Times"),
	},
}
