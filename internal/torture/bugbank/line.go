package bugbank

// lineMutants are bugs of how those of one process wait for a file of SQLite's.
var lineMutants = []Mutant{
	{
		Name:  "who leaves the line keeps his place in it",
		Edits: []Edit{{File: "store/sqlstore/line.go", Old: "		l.queue = slices.Delete(l.queue, i, i+1)\n		return err\n", New: "		return err\n"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "whose statement has failed keeps the turn",
		Edits: []Edit{{File: "store/sqlstore/txn.go", Old: "	if t.line != nil {\n", New: "	if t.line != nil && t.guard.Err() == nil {\n"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "a sweeper keeps the file while somebody waits for it",
		Edits: []Edit{{File: "store/sqlstore/sqlite_sweep.go", Old: "done.tried >= least && s.line.waits()", New: "done.tried >= sqliteMost && s.line.waits()"}},
		Tests: group("TestSweepStandsInLine"),
	},
}
