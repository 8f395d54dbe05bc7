package bugbank

// homeMutants are bugs of package home.
var homeMutants = []Mutant{
	{
		Name:  "two moves in opposite directions wait for each other",
		Edits: []Edit{{In: "home.(Mover).withinBoth", Old: "if from < to {", New: "if from != to {"}},
		Tests: onHomes("TestMovesInOppositeDirections"),
	},
	{
		Name:  "an operation commits in a region that does not own its tenant",
		Edits: []Edit{{In: "home.(*Store).under", Old: "if !c.ID.IsZero() {", New: "if len(c.Writes) > 1000 {"}},
		Tests: onHomes("TestOwningRegionExecutes$/^SQLite$"),
	},
	{
		Name:  "an operation that joins a transaction is not checked",
		Edits: []Edit{{In: "home.(*Store).Join", Old: "return s.checked(s.joiner.Join(ctx, tx, opts))", New: "return s.joiner.Join(ctx, tx, opts)"}},
		Tests: onHomes("TestOwningRegionExecutes$/^SQLite$"),
	},
	{
		Name:  "a change without a transaction of the handler is not checked",
		Edits: []Edit{{In: "home.(*Store).Swap", Old: "s.base.Swap(ctx, s.under(c))", New: "s.base.Swap(ctx, c)"}},
		Tests: onHomes("TestOwningRegionExecutes$/^SQLite$"),
	},
	{
		Name:  "a region does not learn where a tenant that it refuses lives",
		Edits: []Edit{{In: "home.(*Store).homeOf", Old: "s.regions.Pin(tenant, p)", New: "_ = s.regions"}},
		Tests: onHomes("TestOwningRegionExecutes$/^SQLite$"),
	},
	{
		Name:  "a move does not wait for transactions that are committing",
		Edits: []Edit{{In: "home.owned", Old: "for share of h skip locked", New: ""}},
		Tests: onHomes("TestMoveWaitsForOpenTransactions"),
	},
	{
		Name:  "operations are left behind",
		Edits: []Edit{{In: "home.(Mover).raise", Old: "return of.copy(ctx, source, t, from.Tenant)", New: "return nil"}},
		Tests: onHomes("TestOwningRegionExecutes$/^SQLite$"),
	},
	{
		Name:  "a move reads the operations of a tenant from a standby",
		Edits: []Edit{{In: "home.(Mover).raise", Old: "return of.copy(ctx, source, t, from.Tenant)", New: "return of.copy(ctx, m.pool(from.Region), t, from.Tenant)"}},
		Tests: []Killer{{Module: "integration", Package: "home", Test: "TestMoveLosesNothingBehindAStandby"}},
	},
	{
		Name:  "the first page of the operations of a tenant goes along, and the rest does not",
		Edits: []Edit{{In: "home.(table).copySpan", Old: "if err != nil || n == 0 {", New: "if err != nil || n == 0 || key != \"\" {"}},
		Tests: onHomes("TestMoveTakesAllColumns"),
	},
	{
		Name:  "a target becomes the owner before the operations are there",
		Edits: []Edit{{In: "home.(Mover).run", Old: "if err == nil && m.Rows != nil {", New: "if err == nil {\nerr = m.pool(to).exec(ctx, 0, \"update once_home set owned = true where tenant = ?\", from.Tenant)\n}\nif err == nil && m.Rows != nil {"}},
		Tests: onHomes("TestMoveKilled$/^SQLite$"),
	},
	{
		Name:  "a region owns a tenant that has left",
		Edits: []Edit{{In: "home.(Mover).drain", Old: "set owned = false, region = ?", New: "set region = ?"}},
		Tests: onHomes("TestMoveKilled$/^SQLite$"),
	},
	{
		Name:  "a move that was killed at its end is begun again from the region that the tenant has left",
		Edits: []Edit{{In: "home.(Mover).prepare", Old: "where not once_home.owned and once_home.epoch", New: "where once_home.epoch"}, {In: "home.(Mover).Move", Old: "if from >= 0 && i != from && s.Moving != \"\" {", New: "if s.Moving != \"\" {\nreturn m.run(ctx, s, s.Moving, highest(list)+1)\n}\nif from > len(list) && i != from {"}},
		Tests: onHomes("TestMoveKilled$/^SQLite$"),
	},
	{
		Name:  "a region does not ask its own database who owns the tenant of a forwarded request",
		Edits: []Edit{{In: "home.Handler", Old: "home = cfg.ask(r, tenant)", New: "_ = 0"}},
		Tests: onHomes("TestUnpinnedMoves"),
	},
	{
		Name:  "a region does not learn from an answer that the home is elsewhere",
		Edits: []Edit{{In: "home.forward", Old: "cfg.Map.Pin(tenant, pin)\nlater = cfg.ask(r, tenant).Region", New: "_ = pin\nlater = cfg.Map.Home(tenant).Region"}},
		Tests: onHomes("TestUnpinnedMoves"),
	},
	{
		Name:  "the new home waits for the old home, which cannot be reached",
		Edits: []Edit{{In: "home.forward", Old: "(misdirected || isUnsent(err)) && later != region", New: "misdirected && later != region"}},
		Tests: onHomes("TestOldHomeIsDown"),
	},
	{
		Name:  "a region that has no row of a new tenant never learns its home",
		Edits: []Edit{{In: "home.(Mover).publish", Old: "if region == p.Region {", New: "if region != \"\" {"}},
		Tests: onHomes("TestUnpinnedMoves"),
	},
	{
		Name:  "the target of a move that has failed hides the owner",
		Edits: []Edit{{In: "home.forward", Old: "misdirected || resp.StatusCode == http.StatusServiceUnavailable", New: "misdirected"}},
		Tests: onHomes("TestMoveThatFailedIsNotNews"),
	},
	{
		Name:  "the target of a move claims the tenant before it owns it",
		Edits: []Edit{{In: "home.(Mover).prepare", Old: "values (?, false, ?, '') UPSERT", New: "values (?, false, ?, '\" + to + \"') UPSERT"}},
		Tests: onHomes("TestMoveThatFailedIsNotNews"),
	},
	{
		Name:  "a move that is given up leaves a region with a later epoch than the owner",
		Edits: []Edit{{In: "home.(Mover).lift", Old: "s.Epoch >= owner.Epoch", New: "s.Epoch < 0"}},
		Tests: onHomes("TestMoveThatFailedIsNotNews"),
	},
	{
		Name:  "net/http may send a forwarded request again",
		Edits: []Edit{{In: "home.(*Config).send", Old: "onward.SendOnce(out, io.NopCloser(bytes.NewReader(body)))", New: "out.Body = io.NopCloser(bytes.NewReader(body))\nout.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }"}},
		Tests: in("home", "TestForwardedOnce"),
	},
	{
		Name:  "a request that was forwarded is forwarded again",
		Edits: []Edit{{In: "home.Handler", Old: "case len(hops) > 0:", New: "case len(hops) > 1:"}},
		Tests: in("home", "TestMapsDiffer"),
	},
	{
		Name:  "half an answer is passed on",
		Edits: []Edit{{In: "home.(*Config).send", Old: "case err != nil:\nreturn nil, nil, err\ncase int64", New: "case err != nil && len(answer) == 0:\nreturn nil, nil, err\ncase int64"}},
		Tests: in("home", "TestForwardedOnce"),
	},
	{
		Name:  "a client may repeat a request without a key that may have been executed",
		Edits: []Edit{{In: "home.isRepeatable", Old: "http.MethodPut, http.MethodDelete:", New: "http.MethodPut, http.MethodDelete, http.MethodPost:"}},
		Tests: in("home", "TestForwardedOnce"),
	},
	{
		Name:  "a client may repeat a request with an unknown method and without a key",
		Edits: []Edit{{In: "home.isRepeatable", Old: "return r.Header.Get(\"Idempotency-Key\")", New: "return r.Method != http.MethodPost && r.Method != http.MethodPatch || r.Header.Get(\"Idempotency-Key\")"}},
		Tests: in("home", "TestForwardedOnce"),
	},
	{
		Name:  "a pin that comes late takes the place of a later one",
		Edits: []Edit{{In: "home.(*Map).Pin", Old: "p.Epoch <= m.pins[tenant].Epoch", New: "p.Epoch == m.pins[tenant].Epoch"}},
		Tests: in("home", "TestPinsInAnyOrder"),
	},
	{
		Name:  "a new region takes over tenants of all regions",
		Edits: []Edit{{In: "home.(*Map).Home", Old: "h >= highest", New: "h%uint64(len(m.regions)) == 0 || h >= highest"}},
		Tests: in("home", "TestNewRegion"),
	},
	{
		Name:  "the tenants of principals with a slash are other ones",
		Edits: []Edit{{In: "home.ends", Old: `" ", "/", "%2F"`, New: `" ", "/"`}},
		Tests: in("home", "TestTenantOf"),
	},
}
