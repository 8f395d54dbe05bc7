package bugbank

// oncetestMutants are bugs of package oncetest.
var oncetestMutants = []Mutant{
	{
		Name:  "effects are counted after the duplicate only",
		Edits: []Edit{{In: "oncetest.(*suite).judge", Old: "added := s.since(before)", New: "_ = s.settle(in)\nadded := s.since(before)"}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^takes_a_conflict_for_a_duplicate$"),
	},
	{
		Name:  "columns of a table are not summed",
		Edits: []Edit{{In: "tablesOf", Old: "known && c.table != messages", New: "known && c.table == messages"}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^adds_up_what_earlier_runs_have_left$"),
	},
	{
		Name:  "messages are no effects",
		Edits: []Edit{{In: "tablesOf", Old: `strings.HasPrefix(c.table, "once_") && c.table != messages`, New: `strings.HasPrefix(c.table, "once_")`}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^adds_to_the_outbox_in_another_transaction$"),
	},
	{
		Name:  "an answer that is to be lost is given",
		Edits: []Edit{{In: "oncetest.(*Process).Transport", Old: "if act == passes {", New: "if act == passes || act == notAnswered {"}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^tries_a_charge_again_with_another_key$"),
	},
	{
		Name:  "a write that is not sent is sent",
		Edits: []Edit{{In: "oncetest.(*Process).Transport", Old: "case notSent:\nreturn nil, errCut", New: "case notSent:\nact = passes"}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^takes_an_error_of_the_provider_for_a_charge$"),
	},
	{
		Name:  "a dead process goes on",
		Edits: []Edit{{In: "oncetest.(*Process).write", Old: "if act, writes := actions[p.plan.fault]; writes &&", New: "if act, writes := actions[p.plan.fault]; writes && act != dies &&"}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^cleans_up_in_a_defer$"),
	},
	{
		Name:  "callers at once follow each other",
		Edits: []Edit{{In: "oncetest.(*suite).concurrent", Old: "go func() {\na, _ := s.send(in)\nanswers <- a\n}()", New: "func() {\na, _ := s.send(in)\nanswers <- a\n}()"}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^looks_and_then_acts$"),
	},
	{
		Name:  "another body is the same one",
		Edits: []Edit{{In: "oncetest.(Work).suite", Old: "if in.other {", New: "if in.other && in.key == \"\" {"}},
		Tests: onStrangers("TestRightProgramsPass$/^SQLite$/^updates$"),
	},
	{
		Name:  "leases are not over after a death",
		Edits: []Edit{{In: "oncetest.(*suite).expireLeases", Old: "range s.process.databases", New: "range s.process.databases[:0]"}},
		Tests: onStrangers("TestRightProgramsPass$/^SQLite$/^charges_in_a_phase$"),
	},
	{
		Name:  "a provider takes one key with two requests",
		Edits: []Edit{{In: "oncetest.(*Provider).serve", Old: "a.request != request", New: "a.request == \"\""}},
		Tests: onStrangers("TestEachBugIsFound$/^SQLite$/^has_the_time_in_what_it_asks_for$"),
	},
	{
		Name:  "a fault that never strikes is no failure",
		Edits: []Edit{{In: "oncetest.(*suite).tryEach", Old: "case ran > 0 && struck == 0:", New: "case ran > maxFaults && struck == 0:"}},
		Tests: inOncetest("TestAFaultMustStrike"),
	},
	{
		Name:  "a lease that nothing takes over is no failure",
		Edits: []Edit{{In: "oncetest.(*suite).tryEach", Old: "struck > 1 && s.takeovers == 0", New: "struck > 1 && s.takeovers < 0"}},
		Tests: onStrangers("TestALeaseMustBeTakenOver"),
	},
	{
		Name:  "InTx reads nothing",
		Edits: []Edit{{In: "oncetest.(*inTx).Read", Old: "return rec, err", New: "return store.Record{State: rec.State}, err"}},
		Tests: onStrangers("TestAllInATransactionOfTheTest$/^SQLite$"),
	},
	{
		Name:  "time passes for leases only",
		Edits: []Edit{{In: "advances", Old: `"lease_until", "expires_at"`, New: `"lease_until"`}},
		Tests: onStrangers("TestAllInATransactionOfTheTest$/^SQLite$"),
	},
	{
		Name:  "one message is as good as two",
		Edits: []Edit{{In: "oncetest.RequireMessage", Old: "len(found) != 1", New: "len(found) < 1"}},
		Tests: onStrangers("TestAllInATransactionOfTheTest$/^SQLite$"),
	},
	{
		Name:  "a handler that never answers is waited for",
		Edits: []Edit{{In: "oncetest.(*suite).send", Old: "case <-ctx.Done():", New: "case <-s.tb.Context().Done():"}},
		Tests: inOncetest("TestALockThatIsKept"),
	},
	{
		Name:  "a handler that ends with its context is sent the request again",
		Edits: []Edit{{In: "oncetest.(*suite).send", Old: "!a.final && ctx.Err() != nil", New: "a.kind == \"none\""}},
		Tests: inOncetest("TestALockThatIsKept"),
	},
	{
		Name:  "effects are counted without a time limit",
		Edits: []Edit{{In: "oncetest.(*suite).count", Old: "s.countTables(ctx)", New: "s.countTables(s.tb.Context())"}},
		Tests: onStrangers("TestAConnectionThatIsKept"),
	},
	{
		Name:  "a request that is never taken counts as a mismatch that was noticed",
		Edits: []Edit{{In: "oncetest.(*suite).mismatch", Old: "!a.success {", New: "!a.success && a.none {"}},
		Tests: inOncetest("TestAMismatchMustBeTaken"),
	},
	{
		Name:  "a sum is read as a number of floating point",
		Edits: []Edit{{In: "sumOf", Old: `"coalesce(sum(COLUMN), 0)::text"`, New: `"coalesce(sum(COLUMN)::double precision, 0)::text"`}},
		Tests: onStrangers("TestEachBugIsFound$/^pgxstore$/^updates_with_the_pool$"),
	},
	{
		Name:  "two debits are no more than one",
		Edits: []Edit{{In: "oncetest.(effects).within", Old: "new(big.Rat).Abs(n).Cmp(new(big.Rat).Abs(most)) > 0", New: "n.Cmp(most) > 0"}},
		Tests: inOncetest("TestADebitIsAnEffect"),
	},
	{
		Name:  "a count that fails ends the test around its subtest",
		Edits: []Edit{{In: "oncetest.(*suite).subtest", Old: "s.now = t", New: ""}},
		Tests: onStrangers("TestACountThatFailsEndsItsSubtest"),
	},
}
