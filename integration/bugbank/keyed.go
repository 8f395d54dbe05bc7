package bugbank

// keyedMutants are bugs of package internal/keyed.
var keyedMutants = []Mutant{
	{
		Name:  "a publisher sends on after a message of the key has failed",
		Edits: []Edit{{In: "(*publication).finish", Old: "case r.err != nil:", New: "case r.err != nil && next == 0:"}, {In: "(*publication).finish", Old: "case next != 0:", New: "case next > 0:"}},
		Tests: in("internal/keyed", "TestContractUnderRandomFailures"),
	},
	{
		Name:  "a publisher sends all messages of a key at once",
		Edits: []Edit{{In: "(*publication).chain", Old: "if follows {", New: "if follows && false {"}},
		Tests: in("internal/keyed", "TestContractUnderRandomFailures"),
	},
	{
		Name:  "what follows a refused message is refused for good",
		Edits: []Edit{{In: "(*publication).finish", Old: `has failed: %v"`, New: `has failed: %w"`}},
		Tests: in("internal/keyed", "TestContractUnderRandomFailures"),
	},
	{
		Name:  "what was not sent when the context ended is confirmed",
		Edits: []Edit{{In: "(*publication).end", Old: "err == errUnsent || err == errUnknown", New: "err == errUnknown"}},
		Tests: in("broker/httpbroker", "TestPublisherKeepsTheContract$/^ContextHasEnded$"),
	},
	{
		Name:  "calls that hang give their place away",
		Edits: []Edit{{In: "(*publication).start", Old: "results <- result{i, send(&m)}\n<-slots", New: "<-slots\nresults <- result{i, send(&m)}"}},
		Tests: in("internal/keyed", "TestEndOfContext"),
	},
}
