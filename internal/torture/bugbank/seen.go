package bugbank

// seenMutants are bugs of what tells that a topic or a consumer is in trouble.
var seenMutants = []Mutant{
	{
		Name:  "kept messages come faster than they are swept",
		Edits: []Edit{{In: "(*Relay).sweepSent", Old: "n < sweepBatch", New: "n <= sweepBatch"}},
		Tests: outboxTest("TestSweepKeepsUp"),
	},
	{
		Name:  "a pause of a topic that does not exist is no news",
		Edits: []Edit{{In: "(*Box).Known", Old: "known = true", New: "_ = known"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestOutboxCommands"}},
	},
}
