package bugbank

// hostnameMutants are bugs of package internal/base/hostname.
var hostnameMutants = []Mutant{
	{
		Name:  "a budget is another one with the port",
		Edits: []Edit{{In: "hostname.split", Old: `port = ""`, New: `port = host[i:]`}},
		Tests: in("retry/retryhttp", "TestBudgetOfTheHost"),
	},
	{
		Name:  "a budget is another one with the dot of the root",
		Edits: []Edit{{In: "hostname.Canonical", Old: "host[end-1] == '.'", New: "host[end-1] == '/'"}},
		Tests: in("retry/retryhttp", "TestBudgetOfTheHost"),
	},
}
