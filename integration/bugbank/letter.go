package bugbank

// letterMutants are bugs of package internal/sql/letter.
var letterMutants = []Mutant{
	{
		Name:  "two processes apply the same letter",
		Edits: []Edit{{In: "letter.Take", Old: "return n > 0, err", New: "return n >= 0, err"}},
		Tests: deadletterOn("TestLetterLife$/^SQLite$"),
	},
	{
		Name:  "a letter that waits for a person is swept",
		Edits: []Edit{{In: "letter.Sweep", Old: "where state <> 'dead' and resolved_at < AGO(?)", New: "where dead_at < AGO(?)"}, {In: "letter.Sweep", Old: "where uid = ? and state <> 'dead'", New: "where uid = ?"}},
		Tests: deadletterOn("TestSweepKeepsWaitingLetters$/^SQLite$"),
	},
	{
		Name:  "a letter that was not written is no error",
		Edits: []Edit{{In: "letter.Bury", Old: `err == nil && l.UID == ""`, New: `err != nil && l.UID == ""`}},
		Tests: deadletterOn("TestLetterIsWritten"),
	},
	{
		Name:  "the attempts of an older program are forgotten",
		Edits: []Edit{{In: "letter.isAttempt", Old: "or seq = -1)", New: "or seq = -2)"}},
		Tests: []Killer{{Module: "integration", Test: "TestOldProgramBesideLetters$/^SQLite$"}},
	},
}
