package bugbank

// simulateMutants are bugs of package cmd/once/internal/simulate.
var simulateMutants = []Mutant{
	{
		Name:  "a call that sleeps is not in flight",
		Edits: []Edit{{In: "simulate.(*client).begin", Old: "i.of.flying++", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/simulate", Test: "TestSleepingCallsAreInFlight"}},
	},
	{
		Name:  "a verdict says that retries help where they do harm",
		Edits: []Edit{{In: "simulate.(Result).gain", Old: "r.share() - than.share()", New: "than.share() - r.share()"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestStormSaysItsVerdict$/^ordinary"}},
	},
	{
		Name:  "a storm leaves out what is under way at its end",
		Edits: []Edit{{In: "simulate.Run", Old: "r.result.Open = r.result.Intents - r.result.Succeeded - r.result.Failed", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestStormSaysItsVerdict$/^ordinary"}},
	},
}
