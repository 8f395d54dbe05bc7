package bugbank

// pgxChangeMutants are bugs of what pgxstore writes with a commit, and of its SQL plane.
var pgxChangeMutants = []Mutant{
	{
		Name:  "a takeover passes a change that demands a hold",
		Edits: []Edit{{In: "pgsql.Held", Old: "for share of o", New: "for key share of o"}},
		Tests: in("store/pgxstore", "TestHeldIsLockedUntilTheCommit"),
	},
	{
		Name:  "an earlier incarnation's nonce is accepted",
		Edits: []Edit{{In: "pgsql.SwapUpdate", Old: "or claim = $21", New: "or claim <> $20"}},
		Tests: in("store/pgxstore", "TestConformance$/./^Swap"),
	},
	{
		Name:  "a change is written by the transaction after the handler's",
		Edits: []Edit{{In: "pgsql.SameTransaction", Old: "now() = $1", New: "now() >= $1"}},
		Tests: in("store/pgxstore", "TestAChangeInAnotherTransaction"),
	},
	{
		Name:  "the step of an operation is written by the transaction after the handler's",
		Edits: []Edit{{In: "pgsql.SwapKeepSame", Old: "when now() <> $18 then", New: "when now() < $18 then"}},
		Tests: in("store/pgxstore", "TestAChangeInAnotherTransaction"),
	},
	{
		Name:  "a step of an operation waits for locks without a bound",
		Edits: []Edit{{In: "pgsql.BoundsStart", Old: `concat(`, New: `coalesce(`}},
		Tests: in("store/pgxstore", "TestBoundsOfAStep"),
	},
	{
		Name:  "what is appended is sent in the order of the handler",
		Edits: []Edit{{In: "pgxstore.queueWrites", Old: "sqlplane.InLockOrder(writes)", New: "writes"}},
		Tests: in("store/pgxstore", "TestAppendedInAJoin"),
	},
	{
		Name:  "a join forgets what was appended in it",
		Edits: []Edit{{In: "pgxstore.(*joined).Commit", Old: "append(j.user.outer.tail, j.user.tail...)", New: "append(j.user.outer.tail, j.user.tail[:0]...)"}},
		Tests: in("store/pgxstore", "TestAppendedInAJoin"),
	},
	{
		Name:  "a swap runs at the default level",
		Edits: []Edit{{In: "pgxstore.(*Store).inTransaction", Old: "beginText[store.ReadCommitted]", New: "beginText[store.DefaultIsolation]"}},
		Tests: in("store/pgxstore", "TestASwapThatLosesIsTaken"),
	},
	{
		Name:  "a swap that travels without BEGIN is not run again at READ COMMITTED",
		Edits: []Edit{{In: "pgxstore.(*Store).swap", Old: "store.KindOf(err) != store.KindRetry ||", New: "store.KindOf(err) != store.KindLost ||"}},
		Tests: in("store/pgxstore", "TestASwapThatLosesIsTaken"),
	},
	{
		Name:  "a write that may commit travels without BEGIN",
		Edits: []Edit{{In: "pgxstore.(*Store).swap", Old: "checkBatchWrites(writes, s.simple) == nil", New: "true"}},
		Tests: in("store/pgxstore", "TestASwapWithAWriteThatCommits"),
	},
	{
		Name:  "the first step of an operation is written by the transaction after the handler's",
		Edits: []Edit{{In: "pgsql.SwapInsertSame", Old: "when now() <> $20 then", New: "when now() < $20 then"}},
		Tests: in("store/pgxstore", "TestAChangeInAnotherTransaction"),
	},
	{
		Name:  "a late claim is granted at the commit",
		Edits: []Edit{{In: "pgxstore.queueSwap", Old: "!c.StaleAfter.IsZero() && c.Expect.Fence == 0", New: "false"}},
		Tests: in("store/pgxstore", "TestAClaimWritesWhatItIsTold"),
	},
	{
		Name:  "a statement of the pool whose answer is lost has failed",
		Edits: []Edit{{In: "pgxstore.(poolRunner).run", Old: "kind := store.KindLost", New: "kind := store.KindUnavailable"}},
		Tests: in("store/pgxstore", "TestAStatementOfThePoolIsLost"),
	},
	{
		Name:  "a statement that was not sent is not missed",
		Edits: []Edit{{In: "pgxstore.(txRunner).failed", Old: "r.fail(ctx, err)", New: ""}},
		Tests: in("store/pgxstore", "TestConformance$/./^SQL$/^Cancelled"),
	},
	{
		Name:  "what was appended before a migration stays prepared",
		Edits: []Edit{{In: "pgxstore.(*Store).failure", Old: "misfit(pe) {", New: "false {"}},
		Tests: in("store/pgxstore", "TestATailAfterAMigration"),
	},
}
