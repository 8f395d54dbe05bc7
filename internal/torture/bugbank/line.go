package bugbank

// lineMutants are bugs of how those of one process wait for a file of SQLite's.
var lineMutants = []Mutant{
	{
		Name:  "who leaves the line keeps his place in it",
		Edits: []Edit{{File: "store/sqlstore/line.go", Old: "		l.queue = slices.Delete(l.queue, i, i+1)\n		return err\n", New: "		return err\n"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "who cannot begin keeps the turn",
		Edits: []Edit{{File: "store/sqlstore/sqlite.go", Old: "		s.line.next(s.patient())\n		return nil, err\n", New: "		return nil, err\n"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "who hangs in a transaction keeps the line",
		Edits: []Edit{{File: "store/sqlstore/txn.go", Old: "		_ = t.tx.Rollback() // or whoever has been quicker\n		t.free()\n", New: "		_ = t.tx.Rollback()\n"}},
		Tests: group("TestIdle$/^it_returns$"),
	},
	{
		Name:  "a transaction is idle in the middle of a statement",
		Edits: []Edit{{File: "internal/sqlguard/limit.go", Old: "l.held && l.calls == 0 && now", New: "l.held && now"}},
		Tests: []Killer{{Module: "internal/torture", Package: "sqlstore", Test: "TestIdleIsNot", Hangs: true}},
	},
	{
		Name:  "who follows a leader that has lost its transaction waits for it",
		Edits: []Edit{{File: "flight.go", Old: "		if !closed(fl.lost) {\n			return fl, false\n		}\n", New: "		return fl, false\n"}},
		Tests: []Killer{{Module: "internal/torture", Package: "sqlstore", Test: "TestIdleDuplicate", Hangs: true}},
	},
	{
		Name:  "a sweeper keeps the file while somebody waits for it",
		Edits: []Edit{{File: "store/sqlstore/sqlite_sweep.go", Old: "done.tried >= sqliteLeast && s.line.waits()", New: "done.tried >= sqliteMost && s.line.waits()"}},
		Tests: group("TestSweepStandsInLine"),
	},
	{
		Name:  "a sweeper that waits for the file keeps the only connection",
		Edits: []Edit{{File: "store/sqlstore/sqlite_light.go", Old: "s.db.Stats().MaxOpenConnections != 1 && ", New: ""}},
		Tests: []Killer{{Module: "internal/torture", Package: "sqlstore", Test: "TestSQLiteSweepSparesConnections", Hangs: true}},
	},
}
