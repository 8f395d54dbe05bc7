package bugbank

// pgxMutants are bugs of what a transaction leaves behind on its connection.
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
		Name:  "a sweep whose COMMIT was refused has swept",
		Edits: []Edit{{File: "pgxstore/sweep.go", Old: "		if e := br.Close(); err == nil { // of COMMIT\n			err = e\n		}", New: "		_ = br.Close()"}},
		Tests: in("pgxstore", "TestSweepRefusedCommit"),
	},
	{
		Name:  "the mark of a sweep stays where it was",
		Edits: []Edit{{File: "internal/pgsql/sweep.go", Old: "coalesce(max(expires_at), $2)", New: "$2::timestamptz"}},
		Tests: in("pgxstore", "TestSweepMark"),
	},
}
