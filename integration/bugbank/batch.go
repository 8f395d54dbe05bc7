package bugbank

func batchTest(test string) []Killer { return []Killer{{Module: "store/pgxstore", Test: test}} }

// batchMutants are bugs of operations in one round trip.
var batchMutants = []Mutant{
	{
		Name:  "a batch does not see who holds the claim",
		Edits: []Edit{{In: "InsertClaim", Old: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / pg_try_advisory_xact_lock($10)::int)`", New: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / greatest(1, pg_try_advisory_xact_lock($10)::int))`"}},
		Tests: batchTest("TestBatchAtABusyKey"),
	},
	{
		Name:  "a batch that was lost and is not there counts as not applied",
		Edits: []Edit{{In: "(*call).settle", Old: "c.lostClaim = claimMayArrive", New: "c.lostClaim = claimNotLost"}},
		Tests: batchTest("TestBatchThatFailsAfterALateOne"),
	},
	{
		Name:  "a lost commit that claims by itself is settled like any other",
		Edits: []Edit{{In: "(*call).claim", Old: "cl.blind = opts.Batch && cl.byCommit", New: "cl.byCommit = opts.Batch && cl.byCommit\ncl.blind = cl.byCommit"}},
		Tests: batchTest("TestConformanceWithoutLocks$/^Faults"),
	},
	{
		Name:  "a batch that was lost counts as not sent",
		Edits: []Edit{{In: "pgxstore.(*Store).failure", Old: "failed == 0 && ctx.Err() == nil && !conn.IsClosed():", New: "failed == 0 && ctx.Err() == nil:"}},
		Tests: batchTest("TestBatchIsCut"),
	},
	{
		Name: "a batch whose wait was cancelled counts as committed",
		Edits: []Edit{{In: "(*batchTxn).Commit", Old: `if err == nil {
failed, err = len(b), ctx.Err()`, New: `if err == nil && failed < 0 {
failed, err = len(b), ctx.Err()`}},
		Tests: batchTest("TestBatchThatWasCancelledIsAsked"),
	},
	{
		Name:  "a wrong number of rows is committed",
		Edits: []Edit{{In: "Expecting", Old: `" then 1 else (count(*) || '" + affected + n + "')::int end from once_write"`, New: `" then 1 else length(count(*) || '" + affected + n + "') end from once_write"`}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a business collision in a batch is taken for a duplicate",
		Edits: []Edit{{In: "pgxstore.queueWrites", Old: "appended: len(tail) > 0", New: "appended: len(tail) > 0, refusal: store.KindTaken"}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a procedure may commit half a batch",
		Edits: []Edit{{In: "checkBatchWrites", Old: `case "insert",`, New: `case "call", "insert",`}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a batch that is too old executes",
		Edits: []Edit{{In: "(*batchTxn).Commit", Old: "if !t.opts.StaleAfter.IsZero() {", New: "if t.opts.StaleAfter.IsZero() && c.ID.IsZero() {"}},
		Tests: batchTest("TestBatchStale"),
	},
	{
		Name: "the writes of a declined batch are committed",
		Edits: []Edit{{In: "once.(*call).run", Old: `if !a.Rollback {
r.change.Writes`, New: `{
r.change.Writes`}},
		Tests: batchTest("TestConformance$/^prepared"),
	},
	{
		Name:  "a batch that declines is kept however late it is",
		Edits: []Edit{{In: "(*call).commit", Old: "r.rollback || !txn.blind", New: "!txn.blind"}},
		Tests: batchTest("TestBatchThatDeclinesLate"),
	},
	{
		Name:  "a batch that is done has failed if it cannot be prepared",
		Edits: []Edit{{In: "(*call).commit", Old: "if txn.byCommit && c.wasDoneBefore(ctx, err) {", New: "if txn.byCommit && txn.joined && c.wasDoneBefore(ctx, err) {"}},
		Tests: batchTest("TestBatchThatIsDoneIsReplayed"),
	},
	{
		Name:  "statements of batches are never dropped",
		Edits: []Edit{{In: "(*preparedCache).makeRoom", Old: "if oldest.used == p.trips {", New: "if oldest.used <= p.trips {"}},
		Tests: batchTest("TestHotStatementsStayPrepared"),
	},
	{
		Name:  "what a batch has prepared before a migration stays",
		Edits: []Edit{{In: "pgxstore.(*Store).failure", Old: "misfit(pe) {", New: "false {"}},
		Tests: in("store/pgxstore", "TestABatchAfterAMigration"),
	},
}
