package bugbank

// firstAttemptMutants put the claim of a first attempt off, and then do without it.
var firstAttemptMutants = []Mutant{
	{
		Name:  "a first statement runs without the claim",
		Edits: []Edit{{In: "LockOrFail", Old: "select now(), 1 / (pg_try_advisory_xact_lock($1) and not pg_is_in_recovery())::int = 1", New: "select now(), pg_try_advisory_xact_lock($1) as granted"}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "an optimistic first statement runs although the operation is done",
		Edits: []Edit{{In: "LockAbsentOrFail", Old: "not exists (select from once_operation where scope = $2 and key = $3)", New: "(not exists (select from once_operation where scope = $2 and key = $3) or true)"}},
		Tests: in("store/pgxstore", "TestAReplayThatWasNotForeseen"),
	},
	{
		Name:  "an optimistic first statement runs without the claim",
		Edits: []Edit{{In: "LockAbsentOrFail", Old: "(pg_try_advisory_xact_lock($1) and", New: "((pg_try_advisory_xact_lock($1) or true) and"}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "a key that was made long ago is taken for a new one",
		Edits: []Edit{{In: "(*call).isOptimistic", Old: "return !known || c.start.Sub(made) <= youngKey", New: "return !known || c.start.Sub(made) <= 1000*youngKey"}},
		Tests: in("", "TestOptimisticOnlyIfProbablyNew"),
	},
	{
		Name:  "an optimistic operation is told to be in flight before it is claimed",
		Edits: []Edit{{In: "once.(*call).claim", Old: "cl.optimistic = ok && o.IsOptimistic()", New: "cl.optimistic = ok && !o.IsOptimistic()"}},
		Tests: in("", "TestFollowersOfAnOptimist"),
	},
	{
		Name:  "an optimistic operation that is claimed is not told to be in flight",
		Edits: []Edit{{In: "(*firstAttempt).exchange", Old: `if f.opts.Optimistic != nil {`, New: `if false {`}},
		Tests: in("store/pgxstore", "TestOptimisticTellsWhenItIsClaimed"),
	},
	{
		Name: "a handler that hides why its first statement failed is believed",
		Edits: []Edit{{In: "pgxstore.(*txn).Rollback", Old: `t.abandon(ctx)
return t.raw.refused`, New: `t.abandon(ctx)
return nil`}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "a claim that was put off and is held by another is a failure",
		Edits: []Edit{{In: "(*call).runFailed", Old: "return c.storeFailed(conflict, r.undo)", New: "err = errors.Join(err, r.undo)"}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name: "a handler without a statement commits what it has not claimed",
		Edits: []Edit{{In: "pgxstore.(*txn).Commit", Old: `_, err := t.raw.open(ctx, statement{})
if err == nil {`, New: `var err error
if t.raw.first == nil {`}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "what is sent on the connection runs before BEGIN",
		Edits: []Edit{{In: "(*session).Conn", Old: "_, _ = s.open(ctx, statement{})", New: "_ = ctx"}},
		Tests: in("store/pgxstore", "TestAFirstAttemptOpensWithItsFirstStatement"),
	},
	{
		Name: "rows of an earlier handler end those of the next one",
		Edits: []Edit{
			{In: "(*firstRows).Close", Old: `if r.closed {
	return
}`, New: ""},
			{In: "(*gatedRows).Close", Old: "if r.closed || r.gate.enter() != nil {", New: "if false {"},
		},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestRowsOfAnEarlierHandler", Hangs: true}},
	},
	{
		Name: "a first attempt on a broken connection fails",
		Edits: []Edit{{In: "(*session).refuse", Old: `case ctx.Err() == nil:
kind = store.KindRetry`, New: `case ctx.Err() == nil:
kind = store.KindBusy`}},
		Tests: in("store/pgxstore", "TestAFirstAttemptOnABrokenConnection"),
	},
	{
		Name:  "a statement runs while the transaction is opened, or after a panic",
		Edits: []Edit{{In: "(*session).open", Old: "s.first, s.refused = nil, errNotOpen", New: "s.first, s.refused = nil, nil"}},
		Tests: in("store/pgxstore", "TestNothingRunsBeforeTheTransactionIsOpen"),
	},
	{
		Name: "a transaction that could not be opened leaves its connection open",
		Edits: []Edit{{In: "(*session).refuse", Old: `if s.conn.PgConn().TxStatus() == 'I' {
	_ = s.conn.Close(ctx)
}`, New: ""}},
		Tests: in("store/pgxstore", "TestNothingRunsWithoutATransaction"),
	},
	{
		Name: "a first statement that its migration has outdated fails",
		Edits: []Edit{{In: "(*session).failed", Old: `s.refuse(ctx, err)
	return s.refused
case misfit`, New: `return err
case misfit`}},
		Tests: in("store/pgxstore", "TestAFirstStatementAfterAMigration"),
	},
	{
		Name:  "a first statement is prepared without bounds",
		Edits: []Edit{{In: "(*firstAttempt).prepare", Old: "p.known[sql] != nil ||", New: "p.known[sql] != nil || true ||"}},
		Tests: in("store/pgxstore", "TestAFirstStatementIsBounded"),
	},
	{
		Name: "a failure that was made of a claim that was refused is kept",
		Edits: []Edit{{In: "(*call).commit", Old: `store.KindRetry, store.KindBusy, store.KindTaken:
return c.committed`, New: `store.KindRetry, store.KindBusy:
return c.committed`}},
		Tests: in("store/pgxstore", "TestAFailureOfWhomTheClaimWasRefused"),
	},
	{
		Name:  "a tracer switches first attempts off",
		Edits: []Edit{{In: "pgxstore.mayPrepare", Old: "return cfg.DefaultQueryExecMode", New: "return cfg.Tracer == nil && cfg.DefaultQueryExecMode"}},
		Tests: in("store/pgxstore", "TestAFirstAttemptOpensWithItsFirstStatement$/^traced,_first_attempt"),
	},
	{
		Name:  "a tracer is not told the end of a first statement",
		Edits: []Edit{{In: "pgxstore.(*session).Exec", Old: "sent.trace.end(tag, err)", New: ""}},
		Tests: in("store/pgxstore", "TestATracerSeesTheFirstStatement"),
	},
	{
		Name:  "a tracer is not told the end of first rows",
		Edits: []Edit{{In: "(*firstRows).Close", Old: "r.sent.trace.end(r.CommandTag(), r.Err())", New: ""}},
		Tests: in("store/pgxstore", "TestATracerSeesTheFirstStatement"),
	},
	{
		Name:  "a tracer is not told the end of a statement that was skipped",
		Edits: []Edit{{In: "pgxstore.(*session).traceRefused", Old: "sent.trace.end(pgconn.CommandTag{}, err)", New: ""}},
		Tests: in("store/pgxstore", "TestATracerSeesWhatAFirstAttemptFinds"),
	},
	{
		Name:  "a tracer has statements that the handler has dropped taken for prepared",
		Edits: []Edit{{In: "(*preparedCache).forgetOwn", Old: "clear(p.own)", New: "_ = p"}},
		Tests: in("store/pgxstore", "TestATracerSeesEachPrepareOnce"),
	},
}
