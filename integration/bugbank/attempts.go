package bugbank

// attemptsMutants are bugs of package internal/sql/attempts.
var attemptsMutants = []Mutant{
	{
		Name:  "an attempt has the time at which it was written",
		Edits: []Edit{{In: "(*Attempt).values", Old: "time.Since(a.Ended).Microseconds()", New: "time.Since(a.Ended).Microseconds() * 0"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
	},
	{
		Name:  "attempts whose answer was lost cannot be written again",
		Edits: []Edit{{In: "attempts.insertText", Old: "+` KEEP(id)`", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
	},
	{
		Name:  "attempts whose answer was lost cannot be written again to PostgreSQL",
		Edits: []Edit{{In: "insertArrays", Old: " on conflict do nothing", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
	},
}
