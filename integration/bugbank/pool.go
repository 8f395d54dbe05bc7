package bugbank

// poolMutants are bugs of the protection of a pool of connections.
var poolMutants = []Mutant{
	{
		Name:  "nothing tells of a handler that holds its transaction",
		Edits: []Edit{{In: "once.(*call).run", Old: "c.e.cfg.SlowHandler > 0", New: "c.e.cfg.SlowHandler < 0"}},
		Tests: []Killer{{Package: ".", Test: "TestASlowHandlerIsTold", Hangs: true}},
	},
	{
		Name:  "a pool with short waits gets fewer places",
		Edits: []Edit{{In: "limit.(*Pool).Observe", Old: "e.Acquire > p.cfg.Acquire {", New: "e.Acquire < p.cfg.Acquire {"}},
		Tests: in("limit", "TestPoolBound"),
	},
	{
		Name:  "the p99 of a pool is its maximum",
		Edits: []Edit{{In: "(*Pool).adapt", Old: "sum.over > 1 && sum.over*100 > sum.calls", New: "sum.over > 1"}},
		Tests: in("limit", "TestPoolBound"),
	},
	{
		Name:  "calls that have waited together take places twice",
		Edits: []Edit{{In: "limit.(*Pool).Observe", Old: "now.Add(-e.Total).Before(p.changed)", New: "now.Before(p.changed)"}},
		Tests: in("limit", "TestPoolBound"),
	},
	{
		Name:  "waits before a change of places count after it",
		Edits: []Edit{{In: "(*Pool).change", Old: "p.places, p.changed, p.recent = places, now, [parts]waits{}", New: "p.places, p.changed = places, now"}},
		Tests: in("limit", "TestPoolBound"),
	},
	{
		Name:  "places swing about the bound",
		Edits: []Edit{{In: "(*Pool).adapt", Old: "sum.half*100 <= sum.calls", New: "sum.over*100 <= sum.calls"}},
		Tests: in("limit", "TestPoolDoesNotSwing"),
	},
	{
		Name:  "places come back all at once",
		Edits: []Edit{{In: "(*Pool).adapt", Old: "now.Sub(p.changed) >= p.cfg.Window", New: "true"}},
		Tests: in("limit", "TestPoolDoesNotSwing"),
	},
	{
		Name:  "no call looks whether a pool has recovered",
		Edits: []Edit{{In: "limit.(*Pool).limit", Old: "return max(1, n)", New: "if n == 1 { return 0 }; return n"}},
		Tests: in("limit", "TestPoolRecovers"),
	},
	{
		Name:  "the window of a pool never forgets",
		Edits: []Edit{{In: "(*Pool).adapt", Old: "w.part > part-parts", New: "true"}},
		Tests: in("limit", "TestPoolForgets"),
	},
	{
		Name:  "connections of others are given away",
		Edits: []Edit{{In: "limit.(*Pool).limit", Old: "n = min(n, most-others)", New: "n = min(n, most) + 0*others"}},
		Tests: in("limit", "TestPoolLeavesConnectionsToOthers"),
	},
	{
		Name:  "a request that has its connection takes another one from its place",
		Edits: []Edit{{In: "limit.(*Pool).limit", Old: "max(0, inUse-p.running)", New: "inUse"}},
		Tests: in("limit", "TestPoolLeavesConnectionsToOthers"),
	},
	{
		Name:  "replays are shed with new work",
		Edits: []Edit{{In: "limit.(*Limiter).admit", Old: "if replay != nil {", New: "if replay != nil && replay.Cached() {"}},
		Tests: append(in("limit", "TestPoolShedsNewWorkAndAnswersReplays"), Killer{Module: "store/pgxstore", Test: "TestPoolProtection"}),
	},
	{
		Name:  "the wait of a look-up for a connection is not told apart",
		Edits: []Edit{{In: "(*call).readFirst", Old: "waits.With(ctx, c.report.waits)", New: "ctx"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestAcquireIsToldApart"}},
	},
	{
		Name:  "sqlstore does not tell the wait of a look-up apart",
		Edits: []Edit{{In: "sqlstore.(*Store).Read", Old: "w != nil", New: "w != nil && false"}},
		Tests: mariadbSQL("TestAcquireIsToldApart"),
	},
	{
		Name:  "Warm opens one connection and gives it back",
		Edits: []Edit{{In: "pgxstore.(*Store).Warm", Old: "held = append(held, conn)", New: "conn.Release()"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestWarm"}},
	},
	{
		Name:  "Warm does not see that a sql.DB closes what it has opened",
		Edits: []Edit{{In: "sqlstore.(*Store).Warm", Old: "closed > 0", New: "closed > 1000"}},
		Tests: mariadbSQL("TestWarm"),
	},
	{
		Name:  "a breaker that lets one call through looks closed",
		Edits: []Edit{{In: "breaker.(*Hosts).Gauges", Old: "b.State() != gobreaker.StateClosed", New: "b.State() == gobreaker.StateOpen"}},
		Tests: []Killer{{Module: "retry/breaker", Test: "TestGauges"}},
	},
	{
		Name:  "the doctor does not ask PgBouncer what it closes",
		Edits: []Edit{{In: "askIdlePostgres", Old: `settings["client_idle_timeout"]`, New: `settings["no_such_setting"]`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorIdleConnections"}},
	},
	{
		Name:  "the doctor does not see that MySQL closes idle connections",
		Edits: []Edit{{In: "askIdleMySQL", Old: "judge(shortIdle)", New: "judge(0*shortIdle)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorIdleConnectionsMySQL"}},
	},
}
