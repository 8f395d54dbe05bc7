package bugbank

func batchTest(test string) []Killer { return []Killer{{Module: "pgxstore", Test: test}} }

// batchMutants are bugs of operations in one round trip.
var batchMutants = []Mutant{
	{
		Name:  "a batch does not see who holds the claim",
		Edits: []Edit{{File: "internal/pgsql/pgsql.go", Old: "2 / pg_try_advisory_xact_lock($10)::int)`\n", New: "2 / greatest(1, pg_try_advisory_xact_lock($10)::int))`\n"}},
		Tests: batchTest("TestBatchAtABusyKey"),
	},
	{
		Name:  "a batch that was lost and is not there counts as not applied",
		Edits: []Edit{{File: "settle.go", Old: "c.doubt = c.doubt || c.unclaimed;", New: "c.doubt = c.doubt && c.unclaimed;"}},
		Tests: batchTest("TestBatchThatFailsAfterALateOne"),
	},
	{
		Name:  "a batch that was lost counts as not sent",
		Edits: []Edit{{File: "pgxstore/unclaimed.go", Old: "failed == 0 && ctx.Err() == nil && !conn.IsClosed():", New: "failed == 0 && ctx.Err() == nil:"}},
		Tests: batchTest("TestBatchIsCut"),
	},
	{
		Name:  "a batch whose wait was cancelled counts as committed",
		Edits: []Edit{{File: "pgxstore/unclaimed.go", Old: "		if err == nil {\n			failed, err = len(b), ctx.Err()", New: "		if err == nil && failed < 0 {\n			failed, err = len(b), ctx.Err()"}},
		Tests: batchTest("TestBatchThatWasCancelledIsAsked"),
	},
	{
		Name:  "a wrong number of rows is committed",
		Edits: []Edit{{File: "internal/pgsql/pgsql.go", Old: "else (count(*) || '\" + affected + n + \"')::int end", New: "else length(count(*) || '\" + affected + n + \"') end"}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a business collision in a batch is taken for a duplicate",
		Edits: []Edit{{File: "pgxstore/unclaimed.go", Old: "classify(err, failed == record && record < intime)", New: "classify(err, failed >= record && record < intime)"}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a procedure may commit half a batch",
		Edits: []Edit{{File: "pgxstore/declared.go", Old: `case "insert",`, New: `case "call", "insert",`}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a batch that is too old executes",
		Edits: []Edit{{File: "pgxstore/unclaimed.go", Old: "if !t.ask.Until.IsZero() {", New: "if t.ask.Until.IsZero() && c.ID.IsZero() {"}},
		Tests: batchTest("TestBatchStale"),
	},
	{
		Name:  "the writes of a declined batch are committed",
		Edits: []Edit{{File: "exec.go", Old: "	if !a.Rollback {\n		change.Writes", New: "	{\n		change.Writes"}},
		Tests: batchTest("TestConformance$/^prepared"),
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
	{
		Name:  "what a batch has prepared before a migration stays",
		Edits: []Edit{{File: "pgxstore/unclaimed.go", Old: "misfit(pe) {\n", New: "false {\n"}},
		Tests: in("pgxstore", "TestABatchAfterAMigration"),
	},
}
