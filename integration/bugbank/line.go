package bugbank

// lineMutants are bugs of how those of one process wait for a file of SQLite's.
var lineMutants = []Mutant{
	{
		Name: "who leaves the line keeps his place in it",
		Edits: []Edit{{In: "(*line).wait", Old: `l.queue = slices.Delete(l.queue, i, i+1)
return err`, New: "return err"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "who cannot begin keeps the turn",
		Edits: []Edit{{In: "(*Store).openSQLite", Old: "s.file.Next()\nif code", New: "if code"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "an operation on SQLite that need not wait looks up twice",
		Edits: []Edit{{In: "(*Store).openSQLite", Old: "if !s.file.Take() {", New: "if true {"}},
		Tests: group("TestSQLiteLooksUpOnce"),
	},
	{
		Name:  "SQLite parses the store's own statements each time",
		Edits: []Edit{{In: "(*Store).ownContext", Old: "return sqlguard.Own(ctx)", New: "return ctx"}},
		Tests: group("TestSQLiteLooksUpOnce"),
	},
	{
		Name:  "a replay on SQLite waits for other writers",
		Edits: []Edit{{In: "sqlstore.lookBeforeWait", Old: "rec.State == store.StateDone", New: "rec.State == store.StateUnknown"}},
		Tests: group("TestSQLiteReplayWaitsForNobody"),
	},
	{
		Name: "who hangs in a transaction keeps the line",
		Edits: []Edit{{In: "(*txn).limit", Old: `_ = t.tx.Rollback()
t.free()`, New: "_ = t.tx.Rollback()"}},
		Tests: group("TestIdle$/^it_returns$"),
	},
	{
		Name:  "a transaction is idle in the middle of a statement",
		Edits: []Edit{{In: "(*Watch).expire", Old: "w.held && w.calls == 0 && now", New: "w.held && now"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestIdleIsNot", Hangs: true}},
	},
	{
		Name: "who follows a leader that has lost its transaction waits for it",
		Edits: []Edit{{In: "(*Group).Join", Old: `if !isClosed(f.lost) {
	return f, false
}`, New: "return f, false"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestIdleDuplicate", Hangs: true}},
	},
	{
		Name:  "a sweeper keeps the file while a request waits for it",
		Edits: []Edit{{In: "(*Store).sweepPart", Old: "done.tried >= sqliteLeast && s.file.Waiting()", New: "done.tried >= sqliteMost && s.file.Waiting()"}},
		Tests: group("TestSweepStandsInLine"),
	},
	{
		Name:  "a sweeper that waits for the file keeps the only connection",
		Edits: []Edit{{In: "(*File).Relaxed", Old: "f.db.Stats().MaxOpenConnections != 1 &&", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestSQLiteSweepSparesConnections", Hangs: true}},
	},
	{
		Name:  "groups leave no time to other processes",
		Edits: []Edit{{In: "(*groups).next", Old: "g.leave()", New: "g.pass()"}},
		Tests: in("internal/sql/sqlitegroup", "TestLineLeavesTheFileAlone"),
	},
	{
		Name:  "the line pauses for too short a time for SQLite's own wait",
		Edits: []Edit{{In: "(*line).leave", Old: "pause = min(longPause, l.busyTimeout/20)", New: "pause = shortPause"}},
		Tests: in("internal/sql/sqlitegroup", "TestLineLeavesTheFileAlone"),
	},
}
