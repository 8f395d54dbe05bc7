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
		Name:  "a sweeper keeps the file while somebody waits for it",
		Edits: []Edit{{File: "store/sqlstore/sqlite_sweep.go", Old: "done.tried >= least && s.line.waits()", New: "done.tried >= least+sqliteMost && s.line.waits()"}},
		Tests: group("TestSweepStandsInLine"),
	},
}
