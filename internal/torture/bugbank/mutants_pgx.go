package bugbank

// pgxMutants are bugs of what a transaction leaves behind on its connection, and of batches that are refused.
var pgxMutants = []Mutant{
	{
		Name:  "a savepoint outlives the join that it was set in",
		Edits: []Edit{{File: "pgxstore/tx.go", Old: "	if t.ended() {\n", New: "	if t.over {\n"}},
		Tests: batchTest("TestEscapedFromAJoin"),
	},
	{
		Name:  "savepoints have the same names in every transaction",
		Edits: []Edit{{File: "pgxstore/tx.go", Old: "prefixes.Add(1)%64", New: "prefixes.Load()"}},
		Tests: batchTest("TestSavepointNamesDiffer"),
	},
	{
		Name:  "a join goes back to a savepoint that was not set",
		Edits: []Edit{{File: "pgxstore/join.go", Old: "		if set { // to go back", New: "		if set || len(b) > 0 { // to go back"}},
		Tests: batchTest("TestJoinThatIsNotSent"),
	},
	{
		Name:  "a batch that declines is kept however late it is",
		Edits: []Edit{{File: "exec.go", Old: "case c.unclaimed && !c.op.FirstSent.IsZero():", New: "case c.unclaimed && c.joins:"}},
		Tests: batchTest("TestBatchThatDeclinesLate"),
	},
	{
		Name:  "a batch that is done has failed if it cannot be prepared",
		Edits: []Edit{{File: "exec.go", Old: "if c.unclaimed && c.instead(ctx, err) {", New: "if c.unclaimed && c.joins && c.instead(ctx, err) {"}},
		Tests: batchTest("TestBatchThatIsDoneIsReplayed"),
	},
	{
		Name:  "statements of batches are never dropped",
		Edits: []Edit{{File: "pgxstore/pinned.go", Old: "if oldest.used == p.trips {", New: "if oldest.used <= p.trips {"}},
		Tests: batchTest("TestHotStatementsStayPrepared"),
	},
}
