package bugbank

// onceMutants are bugs of the root package.
var onceMutants = []Mutant{
	{
		Name:  "an answer whose writes were rolled back is applied",
		Edits: []Edit{{In: "once.(*call).run", Old: "a.Result.RolledBack = true", New: "_ = a"}},
		Tests: in("oncehttp", "TestAppliedMeansThatTheWritesStand"),
	},
	{
		Name:  "a replayed failure has lost that its writes were kept",
		Edits: []Edit{{In: "once.decode", Old: "final.CommitWrites = v.effect() == EffectApplied", New: "final.CommitWrites = false"}},
		Tests: in("store/memstore", "TestConformance$/^Engine$/^Failure$"),
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
		Name:  "a result of any size is stored",
		Edits: []Edit{{In: "once.marshal", Old: "int64(len(b)) > limit", New: "limit < 0"}},
		Tests: in("", "TestAResultThatIsTooLarge"),
	},
	{
		Name:  "a swap that may yet be applied is told as not applied",
		Edits: []Edit{{In: "(*call).swap", Old: "v = c.storeFailed(unsettled, err)", New: ""}},
		Tests: in("store/memstore", "TestConformance$/^Faults$"),
	},
	{
		Name:  "a commit that may yet be applied is told as not applied",
		Edits: []Edit{{In: "(*call).settle", Old: "if !sleep.For(ctx, delay) {", New: "if err == nil {\nreturn verdict{err: c.fail(CodeUnavailable, EffectNotApplied, lost)}\n}\nif !sleep.For(ctx, delay) {"}},
		Tests: in("store/memstore", "TestConformance$/^Faults$"),
	},
	{
		Name:  "the record of an operation does not name its events",
		Edits: []Edit{{In: "once.(*call).run", Old: "a.Result.Events = own.current.Events()", New: "_ = own.current.Events()"}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "what was rolled back names its events",
		Edits: []Edit{{In: "once.(*call).run", Old: "} else {\n\t\t\ta.Result.Events = own.current.Events()\n\t\t}", New: "}\n\t\ta.Result.Events = own.current.Events()"}},
		Tests: console("TestTrailOfSteps"),
	},
	{
		Name:  "the isolation of an operation is not told",
		Edits: []Edit{{In: "(*call).claim", Old: "Isolation: c.op.Isolation,", New: ""}},
		Tests: isolation("$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "without an observer nothing is logged",
		Edits: []Edit{{In: "once.New", Old: "cfg.Observer = logObserver{}", New: "cfg.Observer = nil"}},
		Tests: in("", "TestDefaultLog"),
	},
	{
		Name:  "the default log shows what is in order",
		Edits: []Edit{{In: "(*Engine).shows", Old: "(!e.alarms || levelOf(ev) >= slog.LevelWarn)", New: "true"}},
		Tests: in("", "TestDefaultLog"),
	},
	{
		Name:  "what is kept for ever has an end",
		Edits: []Edit{{In: "(*Engine).retain", Old: "or(op.Retain, e.cfg.Retain)", New: "min(or(op.Retain, e.cfg.Retain), defaultRetain*1000)"}},
		Tests: in("", "TestForeverReachesTheStore"),
	},
	{
		Name:  "a late first attempt at what is kept for ever is refused",
		Edits: []Edit{{In: "(*Engine).tooLateFrom", Old: "|| e.retain(op) == Forever", New: ""}, {In: "(*Engine).tooLateFrom", Old: "op.Attempt.FirstSent.Add(e.retain(op) - e.skew(op))", New: "op.Attempt.FirstSent.Add(defaultRetain)"}},
		Tests: in("store/memstore", "TestConformance"),
	},
	{
		Name:  "a business 409 is told as a failure",
		Edits: []Edit{{In: "(*call).observeEnd", Old: "&& answer.NotStored()", New: "&& false && answer.NotStored()"}},
		Tests: in("oncehttp", "TestNotStored"),
	},
	{
		Name: "settling believes that what is absent stays absent",
		Edits: []Edit{{
			In: "(*call).settle",
			Old: `again, rec, err := c.e.store.Begin(ctx, store.BeginOptions{ID: ch.ID, Durable: true})
applied = applied || err == nil && bytes.Equal(rec.Nonce, ch.Next.Nonce)
switch {`,
			New: `rec, err := c.e.store.Read(ctx, ch.ID)
applied = applied || err == nil && bytes.Equal(rec.Nonce, ch.Next.Nonce)
var again store.Transaction[TX]
switch {
case err == nil && rec.State == store.StateAbsent:
	return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, lost), again: true}`,
		}},
		Tests: []Killer{history},
	},
	{
		Name: "settling takes the record of another call for its own",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "rec.State == store.StateDone && applied:",
			New: "rec.State == store.StateDone && (applied || len(rec.Nonce) > 0):",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a commit that was applied and has expired counts as not applied",
		Edits: []Edit{
			{In: "(*call).settle", Old: "case again != nil && applied:", New: "case again != nil && applied && len(rec.Nonce) < 0:"},
			{In: "(*call).isAbsent", Old: "rec.State == store.StateAbsent && !bytes.Equal(rec.Nonce, ch.Next.Nonce)", New: "rec.State == store.StateAbsent"},
		},
		Tests: in("", "TestSettleWhatHasExpired"),
	},
	{
		Name:  "who waits is told of a commit that has expired and been done again",
		Edits: []Edit{{In: "(*call).lead", Old: "final = !v.superseded", New: "final = true"}},
		Tests: in("", "TestSettleWhatWasDoneAgain"),
	},
	{
		Name:  "a commit that has expired and been done again is kept in the cache",
		Edits: []Edit{{In: "(*call).finish", Old: "if !v.replayed && !v.superseded {", New: "if !v.replayed {"}},
		Tests: in("", "TestSettleWhatWasDoneAgain"),
	},
	{
		Name: "settling takes the claim of a COMMIT on its way for that of another call",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "rec.State == store.StateDone:",
			New: "rec.State != store.StateAbsent: // somebody else's",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a lost Swap counts as not applied when the operation is absent",
		Edits: []Edit{{
			In:  "(*call).swap",
			Old: "store.KindOf(err) == store.KindLost && v.again {",
			New: "store.KindOf(err) == store.KindRetry && v.again {",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a call runs again while its Swap is on its way",
		Edits: []Edit{{
			In:  "(*call).swap",
			Old: "v = c.storeFailed(unsettled, err)",
			New: "v.err = c.storeFailed(unsettled, err).err",
		}},
		Tests: in("", "TestALostSwapStaysInDoubt"),
	},
	{
		Name: "a call in doubt runs again",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(lost, err))}",
			New: "verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(lost, err)), again: true}",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a handler's own COMMIT is said to be undone",
		Edits: []Edit{{
			In:  "outcomesByKind",
			Old: "handler: misuseInDoubt, commit: misuseInDoubt}",
			New: "handler: misuseInDoubt, commit: misuse}",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a replay that is read first is not compared",
		Edits: []Edit{{
			In:  "(*call).readFirst",
			Old: "return c.found(rec), true",
			New: "return verdict{rec: rec, replayed: true}, true",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "replays are read first where they must be durable",
		Edits: []Edit{{
			In:  "(*call).readFirst",
			Old: "c.lookUp.done || c.e.cfg.Synced ||",
			New: "c.lookUp.done ||",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a follower takes its leader's answer uncompared",
		Edits: []Edit{{
			In:  "once.(*call).follow",
			Old: "return c.found(*rec), true",
			New: "return verdict{rec: *rec, replayed: true}, true",
		}},
		Tests: in("", "TestFollowersCompareFingerprints"),
	},
	{
		Name: "the observer is told that what is in doubt was applied",
		Edits: []Edit{{
			In:  "(*call).observeEnd",
			Old: "Outcome(CodeOf(v.err)), EffectOf(v.err)",
			New: "Outcome(CodeOf(v.err)), max(EffectOf(v.err), EffectNotApplied)",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "an operation's own retention is ignored",
		Edits: []Edit{{
			In:  "(*call).change",
			Old: "Retain: c.e.retain(&c.op)",
			New: "Retain: c.e.cfg.Retain",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "who has lost a race comes back at once",
		Edits: []Edit{{In: "(*call).lead", Old: `if !sleep.For(ctx, rand.N(delay)) {
	return v
}`, New: ""}},
		Tests: in("", "TestPauseBeforeARerun"),
	},
	{
		Name:  "those who have lost a race come back together",
		Edits: []Edit{{In: "(*call).lead", Old: "sleep.For(ctx, rand.N(delay))", New: "sleep.For(ctx, delay)"}},
		Tests: in("", "TestPauseBeforeARerun"),
	},
	{
		Name:  "work without a key comes back at once",
		Edits: []Edit{{In: "(*call).execWithoutKey", Old: "sleep.For(ctx, rand.N(firstDelay))", New: "sleep.For(ctx, 0)"}},
		Tests: in("", "TestPauseBeforeARerun"),
	},
	{
		Name:  "a redirect is a success that has touched nothing",
		Edits: []Edit{{In: "(*call).observeEffectOutside", Old: "a.Result.Status >= 300 ||", New: ""}},
		Tests: in("", "TestEffectOutsideTx"),
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
		Name:  "a claim that was put off and is held by another is a failure",
		Edits: []Edit{{In: "(*call).runFailed", Old: "return c.storeFailed(conflict, r.undo)", New: "err = errors.Join(err, r.undo)"}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name: "a failure that was made of a claim that was refused is kept",
		Edits: []Edit{{In: "(*call).commit", Old: `store.KindRetry, store.KindBusy, store.KindTaken:
return c.committed`, New: `store.KindRetry, store.KindBusy:
return c.committed`}},
		Tests: in("store/pgxstore", "TestAFailureOfWhomTheClaimWasRefused"),
	},
	{
		Name:  "a duplicate is told that nothing tells the outcome, while the late owner may store it",
		Edits: []Edit{{In: "once.(*call).found", Old: "rec.CallStarted && !c.e.irrevocable", New: "rec.CallStarted"}},
		Tests: in("lease", "TestLateOwnerAnswersItsDuplicate"),
	},
	{
		Name: "a verdict on what was never committed is stored",
		Edits: []Edit{{In: "(*call).commit", Old: `case store.KindEnded, store.KindRetry, store.KindBusy, store.KindTaken:
return c.committed`, New: `case store.KindEnded:
return c.committed`}},
		Tests: group("TestGroupPhantoms$/^final"),
	},
	{
		Name:  "each transaction of an inbox is a line of the log",
		Edits: []Edit{{In: "once.levelOf", Old: "return slog.LevelDebug\n}\nreturn slog.LevelInfo", New: "return slog.LevelInfo\n}\nreturn slog.LevelInfo"}},
		Tests: []Killer{{Module: ".", Test: "TestLogLevels"}},
	},
	{
		Name:  "the caller's end ends COMMIT, once a store waits",
		Edits: []Edit{{In: "(callersValues).Done", Old: "(callersValues) Done() <-chan struct{}       { return nil }", New: "(v callersValues) Done() <-chan struct{}     { return v.Context.Done() }"}},
		Tests: in("", "TestCommitContextHasValuesAndNoEnd"),
	},
	{
		Name:  "a caller in a hurry hurries COMMIT",
		Edits: []Edit{{In: "(callersValues).Deadline", Old: "{ return time.Time{}, false }", New: "{ return time.Now(), true }"}},
		Tests: in("", "TestCommitContextHasValuesAndNoEnd"),
	},
	{
		Name:  "a call takes a reserved scope",
		Edits: []Edit{{In: "once.(*call).exec", Old: "owner.Check(ctx, c.op.Scope)", New: "owner.Check(ctx, c.op.Key)"}},
		Tests: in("", "TestReservedScopesAreRefused"),
	},
	{
		Name:  "a join takes a reserved scope",
		Edits: []Edit{{In: "once.(*call).join", Old: "owner.Check(ctx, c.op.Scope)", New: "owner.Check(ctx, c.op.Key)"}},
		Tests: in("", "TestReservedScopesAreRefused"),
	},
	{
		Name:  "a final failure of work that cannot be undone is rolled back",
		Edits: []Edit{{In: "once.(*call).run", Old: "r.rollback = a.Rollback && !c.e.irrevocable;", New: "r.rollback = a.Rollback;"}},
		Tests: in("", "TestLeasedFailureIsCommitted"),
	},
	{
		Name:  "a lost commit of work that cannot be undone is settled by claiming it",
		Edits: []Edit{{In: "(*call).committed", Old: "if kind == store.KindLost && !c.e.irrevocable {", New: "if kind == store.KindLost {"}},
		Tests: in("", "TestLeasedCommitIsNotSettled"),
	},
	{
		Name:  "steps that stand after a failure are not told",
		Edits: []Edit{{In: "(*call).runFailed", Old: "case store.KindEnded, store.KindPartial, store.KindUncertain: // what", New: "case store.KindEnded, store.KindUncertain: // what"}},
		Tests: in("", "TestLeasedHandlerFails"),
	},
	{
		Name:  "a call that was begun before a panic is not told",
		Edits: []Edit{{In: "(*call).panicked", Old: "case store.KindEnded, store.KindPartial, store.KindUncertain:", New: "case store.KindEnded, store.KindPartial:"}},
		Tests: in("", "TestLeasedHandlerFails"),
	},
	{
		Name:  "a handler is not told why its context has ended",
		Edits: []Edit{{In: "once.(*call).execute", Old: "cancel(ErrClaimLost)", New: "cancel(nil)"}},
		Tests: in("", "TestClaimLostEndsTheHandler"),
	},
	{
		Name:  "a duplicate in the same process does not look what a lease was claimed for",
		Edits: []Edit{{In: "once.(*call).follow", Old: "if c.e.irrevocable { // the", New: "if c.e.irrevocable && until.IsZero() { // the"}},
		Tests: in("", "TestLeasedDuplicates"),
	},
	{
		Name:  "the trace is not kept with the operation",
		Edits: []Edit{{In: "(*call).change", Old: "Trace: c.report.trace, Name: c.op.Name}", New: "Name: c.op.Name}"}},
		Tests: in("", "TestTracerContextReachesHandlerAndEvents"),
	},
	{
		Name:  "the name is not kept with the operation",
		Edits: []Edit{{In: "(*call).change", Old: ", Name: c.op.Name}", New: "}"}},
		Tests: in("", "TestNameIsStored"),
	},
	{
		Name:  "the span of a call is not that of its handler",
		Edits: []Edit{{In: "once.(*call).begin", Old: "ctx, c.report.trace = began, cmp.Or(trace, op.Attempt.Trace)", New: "_, c.report.trace = began, cmp.Or(trace, op.Attempt.Trace)"}},
		Tests: in("", "TestTracerContextReachesHandlerAndEvents"),
	},
	{
		Name:  "waiting for a connection counts as looking up",
		Edits: []Edit{{In: "once.(*call).send", Old: "e.LookUp = max(0, c.report.lookUp-e.Acquire-e.LockWait)", New: "e.LookUp = max(0, c.report.lookUp)"}},
		Tests: in("", "TestObserverSeesWhereTimeGoes"),
	},
	{
		Name:  "work whose owner has died in a call is told as running",
		Edits: []Edit{{In: "once.(*Engine).ReadRecord", Old: "rec.State = store.StateUnknown", New: "rec.State = store.StateRunning"}},
		Tests: in("", "TestReadRecordAgreesWithCallers"),
	},
	{
		Name:  "warnings are sampled",
		Edits: []Edit{{In: "once.(logObserver).Observe", Old: "level < slog.LevelWarn && !o.samples(e)", New: "level <= slog.LevelWarn && !o.samples(e)"}},
		Tests: in("", "TestSampledLogKeepsWarnings"),
	},
	{
		Name:  "the lines of a key are sampled one by one",
		Edits: []Edit{{In: "once.(logObserver).samples", Old: "err != nil", New: "err != nil || n > 0"}},
		Tests: in("", "TestSampledLogKeepsWarnings"),
	},
	{
		Name:  "a replay is logged with the trace of the call that has executed",
		Edits: []Edit{{In: "once.(*call).named", Old: "traceparent.TraceID(c.report.trace)", New: "traceparent.TraceID(e.Trace + c.report.trace)"}},
		Tests: in("", "TestLogTellsTheCallAndWhatItReplays"),
	},
	{
		Name:  "an attribute is not in the table of the docs",
		Edits: []Edit{{In: "once.(logObserver).Observe", Old: `text("idempotency_key", e.KeyHash)`, New: `text("key_hash", e.KeyHash)`}},
		Tests: in("", "TestLogAttributesAreThoseOfTheTable"),
	},
	{
		Name:  "what may have committed was not applied if no server can be asked",
		Edits: []Edit{{In: "(*call).runFailed", Old: `case !known && store.KindOf(r.undo) == store.KindLost:`, New: `case !known && store.KindOf(r.undo) == store.KindLost && txn.joined:`}},
		Tests: mariadbSQL("TestCommittedFromBelowAndLost"),
	},
	{
		Name:  "a gigabyte is sent",
		Edits: []Edit{{In: "fits", Old: `n <= maxRecord`, New: `n >= 0`}},
		Tests: in("", "TestResultsThatNoDatabaseTakes"),
	},
	{
		Name:  "a rerun is told that does not follow",
		Edits: []Edit{{In: "(*call).execWithoutKey", Old: "if !sleep.For(ctx, rand.N(firstDelay)) {", New: "c.observe(ctx, EventRerun, v.err)\nif !sleep.For(ctx, rand.N(firstDelay)) {"}},
		Tests: in("", "TestPauseEndsWithTheContext"),
	},
	{
		Name:  "a deadlock of a Join is told twice",
		Edits: []Edit{{In: "once.(*call).observeEnd", Old: "e.Outcome == Outcome(CodeConflict) && c.e.currentFrame(ctx) == nil", New: "e.Outcome == Outcome(CodeConflict)"}},
		Tests: in(".", "TestDeadlocksAreTold"),
	},
	{
		Name: "the fingerprint is ignored",
		Edits: []Edit{{
			In:  "(Fingerprint).matches",
			Old: "return f.isZero()",
			New: "return true || f.isZero()",
		}},
		Tests: in("oncehttp", "TestMismatchOfEachPart"),
	},
	{
		Name: "the scope is ignored",
		Edits: []Edit{{
			In:  "(*Engine).id",
			Old: "return store.ID{Scope: scope, Key: key}",
			New: `return store.ID{Scope: "all", Key: key}`,
		}},
		Tests: in("oncehttp", "TestScopeOfPrincipalAndPath"),
	},
	{
		Name: "a lost COMMIT counts as rolled back",
		Edits: []Edit{{
			In:  "(*call).committed",
			Old: "return c.settle(ctx, txn, ch, err)",
			New: "return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, err)}",
		}},
		Tests: []Killer{core},
	},
	{
		Name: "settling believes a stale look-up",
		Edits: []Edit{{
			In:  "(*call).isAbsent",
			Old: "return err == nil && rec.State == store.StateAbsent && !bytes.Equal(rec.Nonce, ch.Next.Nonce)",
			New: "return err == nil && rec.State <= store.StateDone",
		}},
		Tests: in("", "TestSettleDoesNotTrustAStaleLookUp"),
	},
	{
		Name: "the caller's cancellation ends COMMIT",
		Edits: []Edit{{
			In: "(*call).commit",
			Old: `uncancelled := c.uncancelled(ctx)
defer uncancelled.end()
c.ticket`,
			New: `uncancelled, cancel := context.WithTimeout(ctx, c.e.cfg.Settle)
defer cancel()
c.ticket`,
		}},
		Tests: in("", "TestCancelDoesNotEndACommit"),
	},
	{
		Name: "a panic leaves its operation in flight",
		Edits: []Edit{{
			In:  "(*call).lead",
			Old: "defer func() { f.End(c.id, v.rec, final) }()",
			New: `defer func() {
	if v.err != nil || v.rec.State != store.StateAbsent {
		f.End(c.id, v.rec, final)
	}
}()`,
		}},
		Tests: []Killer{core},
	},
	{
		Name: "a collision on the primary key is an error",
		Edits: []Edit{{
			In:  "(*call).lead",
			Old: "store.KindOf(v.err) == store.KindTaken && v.again && collisions < maxCollisions",
			New: "store.KindOf(v.err) == store.KindTaken && v.again && collisions < 0",
		}, {
			In: "(*call).lead",
			Old: `case v.again && c.runs < c.e.cfg.Runs:
if !sleep`,
			New: `case v.again && store.KindOf(v.err) != store.KindTaken && c.runs < c.e.cfg.Runs:
if !sleep`,
		}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestACollisionIsAReplay"}},
	},
	{
		Name: "the writes of a declined operation are committed",
		Edits: []Edit{{
			In:  "once.answer",
			Old: "Rollback: !f.CommitWrites}",
			New: "Rollback: false}",
		}},
		Tests: []Killer{core},
	},
	{
		Name: "a cached replay is not compared",
		Edits: []Edit{{In: "(*call).exec", Old: `return c.found(rec)
}
until`, New: `return verdict{rec: rec, replayed: true}
}
until`}},
		Tests: []Killer{history},
	},
	{
		Name: "what stood in the way of an answer is cached as the answer",
		Edits: []Edit{{In: "(*call).finish", Old: `if !v.replayed && !v.superseded {
c.e.cache`, New: `if v.rec.State == store.StateDone {
c.e.cache`}},
		Tests: in("", "TestOnlyWhatWasCommittedHereIsCached"),
	},
	{
		Name: "the result of a join is cached",
		Edits: []Edit{{In: "(*call).finish", Old: `if !v.replayed && !v.superseded {
c.e.cache`, New: `if false {
c.e.cache`}, {
			In:  "(*call).finish",
			Old: "if c.e.cfg.Observer != nil {",
			New: `if v.err == nil && !v.replayed && !c.id.IsZero() {
	c.e.cache.Put(c.id, v.rec, c.e.retain(&c.op), c.ticket)
}
if c.e.cfg.Observer != nil {`,
		}},
		Tests: []Killer{history},
	},
	{
		Name:  "a hashed key is not found by who forgets it",
		Edits: []Edit{{In: "(*Engine).InvalidateCache", Old: "keys = append(keys, keyname.Hashed(key))", New: "keys = append(keys, keyname.Hashed(key)[:0]+key)"}},
		Tests: in("", "TestInvalidateCacheDropsAResult"),
	},
	{
		Name:  "a gate asks the store for what the cache has",
		Edits: []Edit{{In: "(*Engine).IsDone", Old: "if e.cache.Has(id, time.Now()) {", New: `if e.cache.Has(id, time.Time{}) && id.Key == "" {`}},
		Tests: in("oncehttp", "TestGateAsksTheCache"),
	},
	{
		Name: "settling believes what only the primary has",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "store.BeginOptions{ID: ch.ID, Durable: true}",
			New: "store.BeginOptions{ID: ch.ID}",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^local"),
	},
	{
		Name: "replays ignore Config.Synced",
		Edits: []Edit{{
			In:  "(*call).claim",
			Old: "Durable: c.e.cfg.Synced, First:",
			New: "First:",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^synced"),
	},
	{
		Name: "a replay that is read first ignores Config.Synced",
		Edits: []Edit{{
			In:  "(*call).readFirst",
			Old: "c.lookUp.done || c.e.cfg.Synced ||",
			New: "c.lookUp.done ||",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^synced"),
	},
	{
		Name: "joining ignores Config.Synced",
		Edits: []Edit{{
			In:  "(*call).join",
			Old: "store.BeginOptions{ID: c.id, Durable: c.e.cfg.Synced, StaleAfter",
			New: "store.BeginOptions{ID: c.id, StaleAfter",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^synced"),
	},
	{
		Name: "who has lost a race is told of what only the primary has",
		Edits: []Edit{{
			In:  "(*call).swap",
			Old: "if rec.State == store.StateDone && c.e.cfg.Synced {",
			New: "if false {",
		}},
		Tests: failover("TestALostRaceIsDurable$/^pgxstore"),
	},
	{
		Name: "what a handler has committed from below is not looked for when it fails",
		Edits: []Edit{{
			In:  "(*call).runFailed",
			Old: "case state == store.StateUnknown && unanswered:",
			New: "case state == store.StateRunning && unanswered:",
		}, {
			In:  "(*call).runFailed",
			Old: "case state == store.StateDone, state == store.StateUnknown:",
			New: "case state == store.StateDone: // somebody else's",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestEndedAndLost$/^MariaDB"}},
	},
	{
		Name: "who was wrong about a first time is believed again",
		Edits: []Edit{{
			In:  "(*call).isFirst",
			Old: "return c.op.Attempt.Number == 1 && !c.id.IsZero() && c.runs == 0 && c.waited == 0",
			New: "return c.op.Attempt.Number == 1 && !c.id.IsZero()",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestNthVain$/^pgxstore"}},
	},
	{
		Name:  "nothing tells of a handler that holds its transaction",
		Edits: []Edit{{In: "once.(*call).run", Old: "c.e.cfg.SlowHandler > 0", New: "c.e.cfg.SlowHandler < 0"}},
		Tests: []Killer{{Package: ".", Test: "TestASlowHandlerIsTold", Hangs: true}},
	},
	{
		Name:  "the wait of a look-up for a connection is not told apart",
		Edits: []Edit{{In: "(*call).readFirst", Old: "waits.With(ctx, c.report.waits)", New: "ctx"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestAcquireIsToldApart"}},
	},
	{
		Name:  "shared cache: a first attempt asks it",
		Edits: []Edit{{In: "(*call).askShared", Old: "|| c.op.Attempt.Number == 1", New: ""}},
		Tests: in("", "TestSharedIsNotAskedInAFirstAttempt"),
	},
	{
		Name:  "shared cache: each try of a call asks it",
		Edits: []Edit{{In: "(*call).askShared", Old: "c.lookUp.shared ||", New: ""}},
		Tests: in("", "TestSharedIsNotAskedInAFirstAttempt"),
	},
	{
		Name: "shared cache: each duplicate asks it, before it joins the flight",
		Edits: []Edit{{In: "(*call).exec", Old: "until := c.start.Add(c.op.Wait)", New: `if c.e.shared != nil && c.op.Attempt.Number != 1 {
	if rec, ok := c.e.shared.get(ctx, c.id); ok {
		return c.found(rec)
	}
}
until := c.start.Add(c.op.Wait)`}},
		Tests: in("", "TestSharedIsAskedOnceForAFlight"),
	},
	{
		Name:  "shared cache: duplicates that wait for a hit are counted as look-ups of the database",
		Edits: []Edit{{In: "once.(*call).follow", Old: "c.report.cached = f.Cached()", New: ""}},
		Tests: in("", "TestSharedIsAskedOnceForAFlight"),
	},
	{
		Name:  "shared cache: what runs is believed",
		Edits: []Edit{{In: "(*shared).get", Old: "rec.State == store.StateDone &&", New: ""}},
		Tests: in("", "TestSharedIsBelievedOnlyOfWhatIsDone"),
	},
	{
		Name:  "shared cache: what is over is believed",
		Edits: []Edit{{In: "(*shared).get", Old: "time.Now().Before(until)", New: "!until.IsZero()"}},
		Tests: in("", "TestSharedIsBelievedOnlyOfWhatIsDone"),
	},
	{
		Name:  "shared cache: a commit without an answer is kept",
		Edits: []Edit{{In: "(*call).settle", Old: "c.sent = time.Time{}", New: ""}},
		Tests: in("", "TestSharedIsGivenOnlyWhatWasAnswered"),
	},
	{
		Name:  "shared cache: a joined result is kept",
		Edits: []Edit{{In: "(*call).finish", Old: "!c.id.IsZero() && !v.provisional {", New: "!c.id.IsZero() {"}},
		Tests: in("", "TestSharedIsGivenOnlyWhatWasAnswered"),
	},
	{
		Name: "shared cache: what is kept is not encrypted",
		Edits: []Edit{
			{In: "(*shared).write", Old: "s.encrypter != nil", New: "false"},
			{In: "(*shared).open", Old: "s.encrypter != nil && len(value) > 0", New: "false"},
		},
		Tests: in("", "TestSharedIsBelievedOnlyOfWhatIsDone"),
	},
	{
		Name:  "shared cache: a value opens in the place of another one",
		Edits: []Edit{{In: "sharedLabel", Old: "seal.Label(id.Scope, id.Key)", New: "seal.Label(id.Scope, id.Key)[:0]"}},
		Tests: in("", "TestSharedIsBelievedOnlyOfWhatIsDone"),
	},
	{
		Name:  "shared cache: a result outlives its record",
		Edits: []Edit{{In: "(*shared).put", Old: "min(s.life, retain/2)", New: "s.life"}},
		Tests: in("", "TestSharedResultEnds"),
	},
	{
		Name:  "shared cache: the queue of results has no bound",
		Edits: []Edit{{In: "(*shared).put", Old: "|| s.bytes+r.size > sharedBytes || len(s.queue) == sharedQueue", New: ""}},
		Tests: in("", "TestSharedQueueIsBounded"),
	},
	{
		Name:  "shared cache: one that fails is asked by each call",
		Edits: []Edit{{In: "(*shared).admits", Old: "if s.failures < sharedFailures {", New: "if true {"}},
		Tests: in("", "TestSharedThatFails"),
	},
	{
		Name:  "shared cache: one failure switches it off",
		Edits: []Edit{{In: "(*shared).ask", Old: "s.failures++; s.failures >= sharedFailures", New: "s.failures += sharedFailures; true"}},
		Tests: in("", "TestSharedThatFails"),
	},
	{
		Name:  "shared cache: one that hangs and does not hear is waited for",
		Edits: []Edit{{In: "(*shared).ask", Old: "case <-ctx.Done():", New: "case <-context.Background().Done():"}},
		Tests: in("", "TestSharedThatFails"),
	},
	{
		Name:  "shared cache: a look-up takes all of the caller's time",
		Edits: []Edit{{In: "(*shared).get", Old: "time.Until(deadline)/2", New: "time.Until(deadline)"}},
		Tests: in("", "TestSharedLeavesTimeForTheDatabase"),
	},
	{
		Name:  "shared cache: forgetting does not reach it",
		Edits: []Edit{{In: "(*Engine).InvalidateCache", Old: "err = errors.Join(err, e.shared.drop(ctx, id))", New: "err = errors.Join(err, ctx.Err())"}},
		Tests: in("", "TestSharedForgets"),
	},
	{
		Name:  "shared cache: nothing keeps out what is forgotten on its way",
		Edits: []Edit{{In: "newShared", Old: "hold: life + or(cfg.Skew, defaultSkew)", New: "hold: 0"}},
		Tests: in("", "TestSharedForgets"),
	},
	{
		Name:  "shared cache: engines of leases have one",
		Edits: []Edit{{In: "once.New", Old: "irrevocable && cfg.Shared != nil", New: "irrevocable && cfg.Shared != nil && cfg.Runs == 0"}},
		Tests: in("", "TestSharedIsNotForLeases"),
	},
	{
		Name:  "a commit that claims is never too late",
		Edits: []Edit{{In: "(*call).commit", Old: "r.rollback || !txn.blind", New: "r.rollback"}},
		Tests: in("", "TestACommitThatClaimsMayBeTooLate"),
	},
	{
		Name: "the undo of what was not executed leaves nothing behind",
		Edits: []Edit{{
			In:  "once.(*Engine).void",
			Old: "rec, _, err := e.Exec(ctx, op, func(context.Context, TX) (Answer, error) { return Answer{Result: voided.Result()}, nil })",
			New: "rec, err := e.ReadRecord(ctx, op)\nif rec.State == store.StateAbsent {\n\trec.Result = voided.Result()\n}",
		}},
		Tests: in("", "TestUndoBeforeItWasDone"),
	},
	{
		Name:  "an undo does not get the value of what it undoes",
		Edits: []Edit{{In: "once.Undo", Old: "undo(ctx, tx, value)", New: "undo(ctx, tx, *new(T))"}},
		Tests: in("", "TestUndoOfWhatWasExecuted"),
	},
	{
		Name: "a forward that comes after its undo is told that it was executed",
		Edits: []Edit{{
			In:  "once.decodeInto",
			Old: "return final, json.Unmarshal(res.Body, final)",
			New: "if err = json.Unmarshal(res.Body, final); final.Code == FailureUndone {\n\tfinal = nil\n}\nreturn final, err",
		}},
		Tests: in("", "TestUndoBeforeItWasDone"),
	},
	{
		Name:  "the key of an undo is that of the forward",
		Edits: []Edit{{In: "once.(*Operation).undo", Old: "own.Key = keyname.Undo(op.Key)", New: "_ = keyname.Undo"}},
		Tests: in("", "TestUndoOfWhatWasExecuted"),
	},
	{
		Name:  "an undo is kept as long as the engine says, and not as long as the forward",
		Edits: []Edit{{In: "once.(*Operation).undo", Old: "own.Attempt.FirstSent = time.Time{}", New: "own.Attempt.FirstSent, own.Retain = time.Time{}, 0"}},
		Tests: in("", "TestUndoLastsAsLongAsTheForward"),
	},
	{
		Name:  "the refusal of a late forward is kept as long as the engine says",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "op.Attempt.Number = 0", New: "op.Attempt.Number, op.Retain = 0, 0"}},
		Tests: in("", "TestUndoLastsAsLongAsTheForward"),
	},
	{
		Name:  "an undo of what may be forgotten says that there was nothing",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "op.Attempt.Number = 0", New: "op.Attempt = Attempt{}"}},
		Tests: in("", "TestUndoLastsAsLongAsTheForward"),
	},
	{
		Name:  "an undo does not compare what was asked",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "op.Attempt.Number = 0", New: "op.Attempt.Number, op.Fingerprint = 0, Fingerprint{}"}},
		Tests: in("", "TestUndoOfAnother"),
	},
	{
		Name:  "an undo takes the result of another operation for its own",
		Edits: []Edit{{In: "once.Undo", Old: "err == nil && !r.Value.Undone", New: "err != nil && !r.Value.Undone"}},
		Tests: in("", "TestUndoOfAnother"),
	},
	{
		Name:  "what has failed is undone",
		Edits: []Edit{{In: "once.Undo", Old: "rec.Result.Kind == store.ResultFailure", New: "voided.Is(rec.Result)"}},
		Tests: in("", "TestUndoOfAFailure"),
	},
	{
		Name:  "work under a lease is voided behind its first phase",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "err != nil || e.irrevocable", New: "err != nil"}},
		Tests: in("", "TestUndoIsRefused"),
	},
	{
		Name:  "parts of a derived key run into each other",
		Edits: []Edit{{In: "escapePart", Old: `":", "%3A",`, New: ""}},
		Tests: in("", "TestDeriveKey"),
	},
}
