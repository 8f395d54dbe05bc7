package bugbank

// dueMutants break how it is found and told what waits, and who goes on with it.
var dueMutants = []Mutant{
	{
		Name:  "what an owner holds is listed as due",
		Edits: []Edit{{In: "sqlstore.sqliteUnfinished", Old: "(not ?4 or state in (3, 4)", New: "(not ?4 or state = 1"}},
		Tests: onSQLite("Lease$/^Unfinished$"),
	},
	{
		Name:  "the backlog counts what is done and kept",
		Edits: []Edit{{In: "dialect.Expired", Old: `" where state = 2 and expires_at <= NOW order by expires_at"`, New: `" where state = 2 and expires_at <> NOW order by expires_at"`}},
		Tests: onSQLite("Lease$/^Backlog$"),
	},
	{
		Name:  "the age of the oldest is that of the youngest",
		Edits: []Edit{{In: "upkeep.(*Backlog).Add", Old: "max(count.Oldest, oldest)", New: "min(count.Oldest, oldest)"}},
		Tests: onSQLite("Lease$/^Backlog$"),
	},
	{
		Name:  "operations of several names count under one of them",
		Edits: []Edit{{In: "dialect.backlog", Old: `" group by state, name union all`, New: `" group by state union all`}},
		Tests: onSQLite("Lease$/^Backlog$"),
	},
	{
		Name:  "what waits counts as running",
		Edits: []Edit{{In: "upkeep.(*Backlog).Add", Old: "count = &b.Waiting", New: "count = &b.Running"}},
		Tests: onLease("TestStoppedWorkWaits"),
	},
	{
		Name:  "what waits is not listed as due on SQLite",
		Edits: []Edit{{In: "sqliteUnfinished", Old: "or state in (3, 4)", New: "or state = 3"}},
		Tests: onSQLite("Lease$/^Unfinished$"),
	},
	{
		Name:  "a listing on SQLite does not look at the state",
		Edits: []Edit{{In: "sqliteUnfinished", Old: "?6 = 0 or state = ?6", New: "?6 = ?6 or state = ?6"}},
		Tests: onSQLite("Lease$/^Unfinished$"),
	},
	{
		Name:  "a listing on PostgreSQL does not look at the state",
		Edits: []Edit{{In: "pgsql.unfinished", Old: "$6::smallint = 0 or", New: "$6::smallint >= 0 or"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestConformance$/^prepared$/^Lease$/^Unfinished$"}},
	},
	{
		Name:  "stopped work stays under a lease that is never over",
		Edits: []Edit{{In: "lease.(*Run).park", Old: "next.Next.State, next.Lease = store.StateWaiting, 0", New: "next.Lease = 0"}},
		Tests: onLease("TestStoppedWorkWaits"),
	},
	{
		Name:  "work that waits in a call is taken over when the call may not be made again",
		Edits: []Edit{{In: "lease.(*Run).takeOver", Old: "if rec.Idle() && saved.Call", New: "if rec.LeaseExpired && saved.Call"}},
		Tests: onLease("TestWaitingInACallThatIsForgotten"),
	},
	{
		Name:  "a person cannot decide a call that work waits in",
		Edits: []Edit{{In: "lease.isUnknown", Old: "rec.Idle() &&", New: "rec.LeaseExpired &&"}},
		Tests: onLease("TestWaitingInACallThatIsForgotten"),
	},
	{
		Name:  "a Completer takes operations whose name it does not know",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "!c.knows(e), ", New: ""}},
		Tests: onLease("TestCompleterLeavesTheRestAlone"),
	},
	{
		Name:  "a Completer looks at the operations of sagas",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "owner.Check(ctx, e.Scope) != nil", New: "false"}},
		Tests: onLease("TestCompleterLeavesTheRestAlone"),
	},
	{
		Name:  "a Completer reads all operations of sagas, page by page",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "c.after = store.ID{Scope: owner.Of(next.Scope).Scopes().Before}", New: ""}},
		Tests: onLease("TestCompleterLooksOnce"),
	},
	{
		Name:  "a look of a Completer reads all that is unfinished",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "for range lookSize / pageSize {", New: "for {"}},
		Tests: onLease("TestCompleterPassesOverTheUnhealthy"),
	},
	{
		Name:  "each look of a Completer begins at the beginning",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "if c.after.IsZero() {", New: "if c.after = (store.ID{}); c.after.IsZero() {"}},
		Tests: onLease("TestCompleterPassesOverTheUnhealthy"),
	},
	{
		Name:  "what was never tried waits behind what fails again and again",
		Edits: []Edit{{In: "lease.(*completing).enqueue", Old: "if t.count > 0 || e.Fence > 1 || e.State == store.StateUnknown {", New: "if e.State == store.StateAbsent {"}},
		Tests: onLease("TestCompleterPassesOverTheUnhealthy"),
	},
	{
		Name:  "a person decides about a saga without its steps",
		Edits: []Edit{{In: "lease.Resolve", Old: "owner.Check(ctx, id.Scope)", New: "owner.Check(ctx, id.Key)"}},
		Tests: onLease("TestResolveRefusesOwners"),
	},
	{
		Name:  "what a saga has stored is forgotten",
		Edits: []Edit{{In: "operate.(*Keys).Forget", Old: "owner.Check(ctx, o.Scope)", New: "owner.Check(ctx, o.Key)"}},
		Tests: in("operate", "TestForgetRefusesOwners"),
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
		Name:  "each door leads to all owners",
		Edits: []Edit{{In: "owner.Check", Old: "ctx.Value(entered{}) == p", New: "ctx.Value(entered{}) != nil"}},
		Tests: in("internal/owner", "TestListed"),
	},
	{
		Name:  "what is unknown waits until a handler ends",
		Edits: []Edit{{In: "lease.(*completing).endsInCall", Old: "if !e.Idle() || !e.CallStarted {", New: "if e.State != store.StateAbsent {"}},
		Tests: onLease("TestCompleterIsNotHeldUp"),
	},
	{
		Name:  "an operation that waits for a place is queued again in each look",
		Edits: []Edit{{In: "lease.(*completing).isTime", Old: "!t.queued &&", New: ""}},
		Tests: onLease("TestCompleterIsNotHeldUp"),
	},
	{
		Name:  "a Completer waits for ever for a database that does not answer",
		Edits: []Edit{{In: "lease.(*completing).list", Old: "context.WithTimeout(ctx, held.SettleTime)", New: "context.WithCancel(ctx)"}},
		Tests: onLease("TestCompleterIsNotHeldUp"),
	},
	{
		Name:  "a Completer finishes an operation with another retention",
		Edits: []Edit{{In: "lease.(*completing).resume", Old: "Attempt: once.Attempt{Trace: rec.Trace}, Retain: s.Retain", New: "Attempt: once.Attempt{Trace: rec.Trace}"}},
		Tests: onLease("TestCompleter"),
	},
	{
		Name:  "a duplicate whose first charge was voided is a final failure",
		Edits: []Edit{{In: "lease.(*call).answered", Old: "err = errors.New(err.Error())", New: ""}},
		Tests: onLease("TestDuplicateYieldsTheExistingResult"),
	},
	{
		Name:  "the retention is not stored with the claim",
		Edits: []Edit{{In: "lease.newRun", Old: "saved: saved{Retain: opts.Retain}", New: ""}},
		Tests: onLease("TestResolutionIsKept"),
	},
	{
		Name:  "a duplicate at the provider is the failure of the operation",
		Edits: []Edit{{In: "lease.(*call).answered", Old: "&& failure.Code != codeDuplicate", New: ""}},
		Tests: onLease("TestDuplicateYieldsTheExistingResult"),
	},
	{
		Name:  "a call whose answer was too large is made again",
		Edits: []Edit{{In: "lease.(*call).save", Old: "if err != nil {\nr.saved.Call.Repeat, r.saved.Call.Check = false, false", New: "if err != nil {\n"}},
		Tests: onLease("TestMaxSaved"),
	},
}

func onSQLite(test string) []Killer {
	return []Killer{{Module: "integration", Test: "TestConformance$/^SQLite$/^" + test}}
}
