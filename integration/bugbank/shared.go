package bugbank

func sharedTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "shared", Test: test}}
}

func redisCacheTest(test string) []Killer {
	return []Killer{{Module: "store/redisstore", Package: "rediscache", Test: test}}
}

// sharedMutants are bugs of the cache that processes have in common.
var sharedMutants = []Mutant{
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
		Name:  "shared cache: nobody is told that a cache was not reached",
		Edits: []Edit{{In: "(*Keys).Forget", Old: "err = errors.Join(err, ErrCache, cacheErr)", New: "_ = ErrCache"}},
		Tests: sharedTest("TestForget"),
	},
	{
		Name:  "Redis as a cache: what is on its way takes the place of what is there",
		Edits: []Edit{{In: "rediscache.(*Cache).Add", Old: `"nx",`, New: ""}},
		Tests: redisCacheTest("TestArrivesLate"),
	},
	{
		Name:  "Redis as a cache: the time of a result is relative",
		Edits: []Edit{{In: "rediscache.(*Cache).Add", Old: `"pxat", until.UnixMilli()`, New: `"px", 30000`}},
		Tests: redisCacheTest("TestArrivesLate"),
	},
	{
		Name: "Redis as a cache: databases meet",
		Edits: []Edit{
			{In: "rediscache.(*Cache).Get", Old: "c.prefix+key", New: "key"},
			{In: "rediscache.(*Cache).Add", Old: "c.prefix+key", New: "key"},
			{In: "rediscache.(*Cache).Replace", Old: "c.prefix+key", New: "key"},
		},
		Tests: redisCacheTest("TestPrefix"),
	},
}
