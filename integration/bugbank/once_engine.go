package bugbank

// onceEngineMutants are bugs of claims, commits, retries and leases in the root package.
var onceEngineMutants = []Mutant{
	{
		Name:  "an answer whose writes were rolled back is applied",
		Edits: []Edit{{In: "once.(*call).run", Old: "a.Result.RolledBack = true", New: "_ = a"}},
		Tests: in("oncehttp", "TestAppliedMeansThatTheWritesStand"),
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
		Name: "a verdict on what was never committed is stored",
		Edits: []Edit{{In: "(*call).commit", Old: `case store.KindEnded, store.KindRetry, store.KindBusy, store.KindTaken:
return c.committed`, New: `case store.KindEnded:
return c.committed`}},
		Tests: group("TestGroupPhantoms$/^final"),
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
		Name:  "work whose owner has died in a call is told as running",
		Edits: []Edit{{In: "once.(*Engine).ReadRecord", Old: "rec.State = store.StateUnknown", New: "rec.State = store.StateRunning"}},
		Tests: in("", "TestReadRecordAgreesWithCallers"),
	},
	{
		Name:  "what may have committed was not applied if no server can be asked",
		Edits: []Edit{{In: "(*call).runFailed", Old: `case !known && store.KindOf(r.undo) == store.KindLost:`, New: `case !known && store.KindOf(r.undo) == store.KindLost && txn.joined:`}},
		Tests: mariadbSQL("TestCommittedFromBelowAndLost"),
	},
	{
		Name:  "a rerun is told that does not follow",
		Edits: []Edit{{In: "(*call).execWithoutKey", Old: "if !sleep.For(ctx, rand.N(firstDelay)) {", New: "c.observe(ctx, EventRerun, v.err)\nif !sleep.For(ctx, rand.N(firstDelay)) {"}},
		Tests: in("", "TestPauseEndsWithTheContext"),
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
		Name:  "a commit that claims is never too late",
		Edits: []Edit{{In: "(*call).commit", Old: "r.rollback || !txn.blind", New: "r.rollback"}},
		Tests: in("", "TestACommitThatClaimsMayBeTooLate"),
	},
	{
		Name:  "parts of a derived key run into each other",
		Edits: []Edit{{In: "escapePart", Old: `":", "%3A",`, New: ""}},
		Tests: in("", "TestDeriveKey"),
	},
}
