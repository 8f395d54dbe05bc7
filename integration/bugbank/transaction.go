package bugbank

// transactionMutants let something out of a transaction of PostgreSQL, or into it, that does not
// belong there: another client's statement, one that a goroutine has left behind, a thousand
// locks too many, a claim that the server does not keep.
var transactionMutants = []Mutant{
	{
		Name:  "statements of two connections have one name",
		Edits: []Edit{{In: "(*preparedCache).name", Old: "return p.prefix + strconv", New: `return "once_batch_" + strconv`}},
		Tests: in("store/pgxstore", "TestATransactionPoolerRunsNoOtherStatement"),
	},
	{
		Name:  "it is not told that a pooler is in between",
		Edits: []Edit{{In: "pgxstore.explained", Old: "pe != nil && (pe.Code", New: "pe != nil && false && (pe.Code"}},
		Tests: in("store/pgxstore", "TestATransactionPoolerRunsNoOtherStatement"),
	},
	{
		Name:  "a transaction ends beside a statement that is under way",
		Edits: []Edit{{In: "(*gate).end", Old: "g.state.Or(gateOver)&gateBusy != 0", New: "g.state.Or(gateOver)&0 != 0"}},
		Tests: in("store/pgxstore", "TestAStatementThatIsLeftBehind"),
	},
	{
		Name:  "two goroutines commit what both have done",
		Edits: []Edit{{In: "(*gate).collided", Old: "g.state.Load()&gateCollided != 0", New: "g.state.Load()&0 != 0"}},
		Tests: in("store/pgxstore", "TestTwoGoroutinesInOneTransaction"),
	},
	{
		Name:  "a join leaves its statement in the transaction of its caller",
		Edits: []Edit{{In: "pgxstore.(*joined).enter", Old: "cut(conn.PgConn())", New: "_ = conn"}},
		Tests: in("store/pgxstore", "TestAJoinThatLeavesAStatementBehind"),
	},
	{
		Name:  "one more join than a thousand",
		Edits: []Edit{{In: "pgxstore.(*joined).hold", Old: "j.claims.held >= pgsql.MaxJoins", New: "j.claims.held > pgsql.MaxJoins"}},
		Tests: in("store/pgxstore", "TestManyJoins"),
	},
	{
		Name:  "a join that replays keeps its claim",
		Edits: []Edit{{In: "pgxstore.leave", Old: "b.queue(undoSavepoint)", New: ""}},
		Tests: in("store/pgxstore", "TestManyJoins"),
	},
	{
		Name:  "a join that fails counts for ever",
		Edits: []Edit{{In: "pgxstore.(*joined).undo", Old: "j.claims.held--", New: ""}},
		Tests: in("store/pgxstore", "TestManyJoins"),
	},
	{
		Name:  "sqlstore: one more join than a thousand",
		Edits: []Edit{{In: "sqlstore.(*joined).countClaim", Old: "j.guard.Claims(+1) > pgsql.MaxJoins", New: "j.guard.Claims(+1) > pgsql.MaxJoins+1"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestManyJoins"}},
	},
	{
		Name: "sqlstore: a join that replays keeps its claim",
		Edits: []Edit{{In: "sqlstore.(*Store).Join", Old: `if s.dialect.name == sqlplane.PostgreSQL {
	err = j.rollback(ctx)
}`, New: ""}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestManyJoins"}},
	},
	{
		Name:  "a server that keeps no claims is believed",
		Edits: []Edit{{In: "pgxstore.excludesLock", Old: "granted && !second", New: "granted"}},
		Tests: in("store/pgxstore", "TestAServerWithoutLocks"),
	},
	{
		Name:  "a server that does not list its locks counts as one that keeps none",
		Edits: []Edit{{In: "pgxstore.excludesLock", Old: "granted && !second", New: "false"}},
		Tests: in("store/pgxstore", "TestLocksThatAreNotListed"),
	},
	{
		Name:  "a sweeper does not ask whether the server keeps claims",
		Edits: []Edit{{In: "pgxstore.(*Store).sweepOut", Old: "if err := s.probe(ctx, conn.Conn()); err != nil", New: "if err := error(nil); err != nil"}},
		Tests: in("store/pgxstore", "TestAServerWithoutLocks"),
	},
	{
		Name:  "each operation that waits for the probe begins one",
		Edits: []Edit{{In: "pgxstore.(*Store).probeApart", Old: "case p == nil:", New: "default:"}},
		Tests: in("store/pgxstore", "TestOperationsShareTheProbe"),
	},
	{
		Name:  "each operation finds out again that the server keeps no locks, and says so",
		Edits: []Edit{{In: "pgxstore.(*Store).findOut", Old: "s.probed.Store(true)", New: ""}},
		Tests: in("store/pgxstore", "TestAServerWithoutLocks"),
	},
	{
		Name:  "a commit that claims is never too late",
		Edits: []Edit{{In: "(*call).commit", Old: "r.rollback || !txn.blind", New: "r.rollback"}},
		Tests: in("", "TestACommitThatClaimsMayBeTooLate"),
	},
	{
		Name: "every operation asks whether the server keeps claims",
		Edits: []Edit{
			{In: "pgxstore.(*Store).probe", Old: "s.probed.Store(true)", New: ""},
			{In: "pgxstore.(*Store).probe", Old: "conn.PgConn().CustomData()[probedKey] == nil", New: "true"},
		},
		Tests: in("store/pgxstore", "TestTheProbeIsSentOnce"),
	},
	{
		Name:  "sqlstore: a server that keeps no claims is believed",
		Edits: []Edit{{In: "pgsql.ExcludesLock", Old: "granted && !second", New: "granted"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestAServerWithoutLocks"}},
	},
	{
		Name:  "nodes that migrate together without locks fail",
		Edits: []Edit{{In: "sqlstore.MigrateOnly", Old: "!pgsql.Overtaken(sqlguard.SQLState(err))", New: "err != nil"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestMigrationsTogetherWithoutLocks"}},
	},
}
