package bugbank

// dialectMutants are bugs of package internal/sql/dialect.
var dialectMutants = []Mutant{
	{
		Name:  "what has expired counts as stored",
		Edits: []Edit{{In: "dialect.stored", Old: "state = 2 and expires_at <= NOW then 0", New: "state = 2 and expires_at < 0 * NOW then 0"}},
		Tests: onSQLite("Sweep$/^Stored$"),
	},
	{
		Name:  "a page of sizes skips the rest of its last scope",
		Edits: []Edit{{In: "dialect.stored", Old: `"(scope, KEY) > (?, ?)"`, New: `"scope > ? and KEY <> ?"`}},
		Tests: onSQLite("Sweep$/^Stored$"),
	},
	{
		Name:  "an endpoint whose circuit is open counts as overdue",
		Edits: []Edit{{In: "dialect.DueEndpoints", Old: "s.circuit_until <= NOW", New: "1 = 1"}},
		Tests: onHookrelay("TestGaugesOfEndpointsAndRelays$/^SQLite$"),
	},
	{
		Name:  "the backlog counts what is done and kept",
		Edits: []Edit{{In: "dialect.Expired", Old: `" where state = 2 and expires_at <= NOW order by expires_at"`, New: `" where state = 2 and expires_at <> NOW order by expires_at"`}},
		Tests: onSQLite("Lease$/^Backlog$"),
	},
	{
		Name:  "operations of several names count under one of them",
		Edits: []Edit{{In: "dialect.backlog", Old: `" group by state, name union all`, New: `" group by state union all`}},
		Tests: onSQLite("Lease$/^Backlog$"),
	},
	{
		Name:  "a quotation mark ends the text of an attempt",
		Edits: []Edit{{In: "appendElement", Old: "quoted.Replace(v)", New: "v"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
	},
	{
		Name:  "milliseconds are taken for microseconds",
		Edits: []Edit{{In: "dialect.ago", Old: `" - " + microseconds + " / 1000)"`, New: `" - " + microseconds + ")"`}},
		Tests: planeSuite("SQLite", "Times"),
	},
	{
		Name:  "a saga that has ended is behind its pivot for ever",
		Edits: []Edit{{In: "dialect.unfinished", Old: `" indexed by once_operation_unfinished where expires_at is null and state <> 2"`, New: `" where 1 = 1"`}, {In: "saga.(*run).change", Old: "s.point(e.state == store.StateDone)", New: "s.point(false)"}},
		Tests: onSagas("TestGaugesCountDueAndStuckSagas$/^SQLite$"),
	},
}
