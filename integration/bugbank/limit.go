package bugbank

// limitMutants are bugs of package limit.
var limitMutants = []Mutant{
	{
		Name:  "a quota refuses what was begun",
		Edits: []Edit{{In: "limit.(*Quota).Admit", Old: "!full || begun()", New: "!full"}},
		Tests: in("oncehttp", "TestQuotaRefusesOnlyNewWork"),
	},
	{
		Name:  "a quota does not count what its process stores",
		Edits: []Edit{{In: "limit.(*Quota).full", Old: "q.counted[p]+q.added[p] < q.cfg.Bytes", New: "q.counted[p] < q.cfg.Bytes"}},
		Tests: in("oncehttp", "TestQuotaRefusesOnlyNewWork"),
	},
	{
		Name:  "a quota forgets what is stored during a count",
		Edits: []Edit{{In: "limit.(*Quota).count", Old: "counted, q.since, began", New: "counted, map[string]int64{}, began"}},
		Tests: in("oncehttp", "TestQuotaOfSeveralProcesses"),
	},
	{
		Name:  "a quota counts a principal by its last page",
		Edits: []Edit{{In: "limit.(*Quota).count", Old: "bytes += s.Bytes", New: "bytes = s.Bytes"}},
		Tests: in("oncehttp", "TestQuotaOfSeveralProcesses"),
	},
	{
		Name:  "a count that fails stands for ever",
		Edits: []Edit{{In: "limit.(*Quota).full", Old: "case q.at.IsZero(), now.Sub(q.at) > quotaRounds*q.cfg.Every:", New: "case q.at.IsZero():"}},
		Tests: in("oncehttp", "TestQuotaThatCannotCount"),
	},
	{
		Name:  "a count stands for as long as no count fails",
		Edits: []Edit{{In: "limit.(*Quota).full", Old: "case q.at.IsZero(), now.Sub(q.at) >", New: `case q.at.IsZero(), q.trouble != "" && now.Sub(q.at) >`}},
		Tests: in("oncehttp", "TestQuotaWhoseCountIsSlow"),
	},
	{
		Name:  "a slow count is as young as its end",
		Edits: []Edit{{In: "limit.(*Quota).count", Old: "q.counted, q.added, q.at = counted, q.since, began", New: "q.counted, q.added, q.at = counted, q.since, time.Now()"}},
		Tests: in("oncehttp", "TestQuotaWhoseCountIsSlow"),
	},
	{
		Name:  "a replay from the cache needs a look-up of the store",
		Edits: []Edit{{In: "(*Limiter).replay", Old: "if replay.Cached() {", New: "if replay.Cached() && l == nil {"}},
		Tests: in("limit", "TestCachedReplaysPassABusyTenant"),
	},
	{
		Name:  "one tenant takes all look-ups",
		Edits: []Edit{{In: "(*share).take", Old: "s.free == 0 || s.shared && s.taken[tenant] >= s.free", New: "s.free == 0"}},
		Tests: in("limit", "TestCachedReplaysPassABusyTenant"),
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
		Name:  "a new request starts no request that waits for a capacity that has grown",
		Edits: []Edit{{In: "fairqueue.(*Queue).Enter", Old: "if q.Serve(now); q.waiting > 0 {", New: "if q.waiting > 0 {"}},
		Tests: in("internal/base/fairqueue", "TestGrownCapacityServesWaitingRequests"),
	},
	{
		Name:  "requests that wait never look whether a capacity has grown",
		Edits: []Edit{{In: "(*Limiter).await", Old: "l.queue.Serve(l.now())", New: ""}},
		Tests: in("limit", "TestWaitingRequestsTakeFreedConnections"),
	},
	{
		Name:  "replays are shed with new work",
		Edits: []Edit{{In: "limit.(*Limiter).admit", Old: "if replay != nil {", New: "if replay != nil && replay.Cached() {"}},
		Tests: append(in("limit", "TestPoolShedsNewWorkAndAnswersReplays"), Killer{Module: "store/pgxstore", Test: "TestPoolProtection"}),
	},
	{
		Name:  "all principals share a quota",
		Edits: []Edit{{In: "limit.principalOf", Old: "return principal", New: "return principal[:0]"}},
		Tests: []Killer{{Module: "integration", Package: "quota", Test: "TestQuotaRefusesOnlyItsPrincipal$/^SQLite$"}},
	},
}
