package bugbank

// requestMutants are bugs of package cmd/once/internal/request.
var requestMutants = []Mutant{
	{
		Name:  "an option of curl that is not understood is left out",
		Edits: []Edit{{In: "request.(*curl).option", Old: "if !ok {", New: "if !ok { return taken, nil }; if !ok {"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/request", Test: "TestWhatIsNotUnderstoodIsAnError"}},
	},
}
