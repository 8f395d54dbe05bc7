package bugbank

// retentionMutants are bugs of package retention, and of what stores read for its archives.
var retentionMutants = []Mutant{
	{
		Name:  "a slow archive has a minute",
		Edits: []Edit{{In: "retention.(*Sweeper).batch", Old: "bound = patienceKept", New: "bound = patience"}},
		Tests: in("retention", "TestSlowArchiveDeletesItsRows"),
	},
	{
		Name:  "a slow archive gets batches as large as before",
		Edits: []Edit{{In: "(*pace).resize", Old: "err != nil || took > slowKept", New: "err != nil"}},
		Tests: in("retention", "TestSlowArchiveDeletesItsRows"),
	},
	{
		Name:  "an archive that fails gets batches as large as before",
		Edits: []Edit{{In: "(*pace).resize", Old: "err != nil || took > slowKept", New: "took > slowKept"}},
		Tests: in("retention", "TestFailingArchiveGetsSmallerBatches"),
	},
	{
		Name:  "a pass forgets how many rows the archive takes",
		Edits: []Edit{{In: "retention.(*Sweeper).Sweep", Old: "s.kept.Store(int64(p.batch))", New: ""}},
		Tests: in("retention", "TestFailingArchiveGetsSmallerBatches"),
	},
	{
		Name:  "an archive that is quick gets small batches",
		Edits: []Edit{{In: "(*pace).resize", Old: "p.batch = min(p.most, 2*p.batch)", New: ""}},
		Tests: in("retention", "TestQuickArchiveGetsLargeBatches"),
	},
	{
		Name:  "large rows are read again and again for one batch",
		Edits: []Edit{{In: "(*pace).resize", Old: "p.batch = swept.Rows", New: "p.batch = min(p.most, 2*p.batch)"}},
		Tests: in("retention", "TestLargeRowsGetSmallBatches"),
	},
	{
		Name:  "a locked row is archived until it is free",
		Edits: []Edit{{In: "retention.(*Sweeper).Sweep", Old: "|| swept.Rows == 0 && !swept.Mark.After(req.After)", New: ""}},
		Tests: in("retention", "TestLockedRowIsSkipped"),
	},
	{
		Name:  "a batch has room for any number of bytes",
		Edits: []Edit{{In: "(*Batch).full", Old: "b.bytes >= maxBatch", New: "b.bytes < 0"}},
		Tests: in("internal/sql/dialect", "TestBatchIsBoundedInBytes"),
	},
	{
		Name:  "pgx reads all large rows for one batch",
		Edits: []Edit{{In: "pgxstore.collectExpired", Old: "break", New: ""}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestSweepOfLargeRows"}},
	},
	{
		Name:  "sqlstore reads all large rows for one batch",
		Edits: []Edit{{In: "sqlstore.collectExpired", Old: "break", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestSweepOfLargeRows$/^SQLite$"}},
	},
	{
		Name:  "what is delivered is archived with the time limit of a statement",
		Edits: []Edit{{In: "outbox.(*Relay).sweepSent", Old: "most = archiveTime", New: "most = statementTime"}},
		Tests: in("outbox", "TestSlowArchiveDeletesItsMessages"),
	},
}
