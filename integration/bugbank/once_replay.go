package bugbank

// onceReplayMutants are bugs of replays, fingerprints and caches in the root package.
var onceReplayMutants = []Mutant{
	{
		Name:  "a replayed failure has lost that its writes were kept",
		Edits: []Edit{{In: "once.decode", Old: "final.CommitWrites = v.effect() == EffectApplied", New: "final.CommitWrites = false"}},
		Tests: in("store/memstore", "TestConformance$/^Engine$/^Failure$"),
	},
	{
		Name:  "a result of any size is stored",
		Edits: []Edit{{In: "once.marshal", Old: "int64(len(b)) > limit", New: "limit < 0"}},
		Tests: in("", "TestAResultThatIsTooLarge"),
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
		Name:  "a duplicate is told that nothing tells the outcome, while the late owner may store it",
		Edits: []Edit{{In: "once.(*call).found", Old: "rec.CallStarted && !c.e.irrevocable", New: "rec.CallStarted"}},
		Tests: in("lease", "TestLateOwnerAnswersItsDuplicate"),
	},
	{
		Name:  "a duplicate in the same process does not look what a lease was claimed for",
		Edits: []Edit{{In: "once.(*call).follow", Old: "if c.e.irrevocable { // the", New: "if c.e.irrevocable && until.IsZero() { // the"}},
		Tests: in("", "TestLeasedDuplicates"),
	},
	{
		Name:  "a gigabyte is sent",
		Edits: []Edit{{In: "fits", Old: `n <= maxRecord`, New: `n >= 0`}},
		Tests: in("", "TestResultsThatNoDatabaseTakes"),
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
		Name: "the writes of a declined operation are committed",
		Edits: []Edit{{
			In:  "once.answer",
			Old: "Rollback: !f.CommitWrites}",
			New: "Rollback: false}",
		}},
		Tests: []Killer{core},
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
		Name: "a replay that is read first ignores Config.Synced",
		Edits: []Edit{{
			In:  "(*call).readFirst",
			Old: "c.lookUp.done || c.e.cfg.Synced ||",
			New: "c.lookUp.done ||",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^synced"),
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
		Name: "a forward that comes after its undo is told that it was executed",
		Edits: []Edit{{
			In:  "once.decodeInto",
			Old: "return final, json.Unmarshal(res.Body, final)",
			New: "if err = json.Unmarshal(res.Body, final); final.Code == FailureUndone {\n\tfinal = nil\n}\nreturn final, err",
		}},
		Tests: in("", "TestUndoBeforeItWasDone"),
	},
}
