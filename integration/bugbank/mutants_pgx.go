package bugbank

// pgxMutants are bugs of what a transaction leaves behind on its connection.
var pgxMutants = []Mutant{
	{
		Name:  "a savepoint outlives the one that it was set in",
		Edits: []Edit{{In: "(*tx).Rollback", Old: "if t.ended() {", New: "if t.over.Load() {"}},
		Tests: batchTest("TestSavepointOfOneThatHasEnded"),
	},
	{
		Name:  "savepoints have the same names in every transaction",
		Edits: []Edit{{In: "(*shared).name", Old: "prefixes.Add(1)%64", New: "prefixes.Load()"}},
		Tests: batchTest("TestSavepointNamesDiffer"),
	},
	{
		Name: "a join goes back to a savepoint that was not set",
		Edits: []Edit{{In: "pgxstore.(*Store).Join", Old: `if set { // to go back to what was not set would fail the caller's transaction
_`, New: `if set || len(b) > 0 { // to go back to what was not set would fail the caller's transaction
_`}},
		Tests: batchTest("TestJoinThatIsNotSent"),
	},
	{
		Name: "a sweep whose COMMIT was refused has swept",
		Edits: []Edit{{In: "readSwept", Old: `if e := br.Close(); err == nil { // of COMMIT
	err = e
}`, New: "_ = br.Close()"}},
		Tests: in("store/pgxstore", "TestSweepRefusedCommit"),
	},
	{
		Name:  "the mark of a sweep stays where it was",
		Edits: []Edit{{In: "pgsql.Sweep", Old: "coalesce(max(expires_at), $2)", New: "$2::timestamptz"}},
		Tests: in("store/pgxstore", "TestSweepMark"),
	},
}
