package bugbank

// flightMutants are bugs of package internal/engine/flight.
var flightMutants = []Mutant{
	{
		Name:  "a follower waits for a leader that has had no answer",
		Edits: []Edit{{In: "(*Flight).wait", Old: "timeout, end = t.C, EndUnknown", New: "end = EndUnknown"}},
		Tests: in("", "TestAFollowerOfASilentStore"),
	},
	{
		Name:  "any number of duplicates may wait",
		Edits: []Edit{{In: "(*Group).enter", Old: "w.calls >= w.maxCalls ||", New: ""}},
		Tests: in("", "TestWaitingDuplicatesAreBounded"),
	},
	{
		Name:  "duplicates that wait may keep any number of bytes",
		Edits: []Edit{{In: "(*Group).enter", Old: "|| w.bytes+bytes > w.maxBytes", New: ""}},
		Tests: in("", "TestWaitingDuplicatesAreBounded"),
	},
	{
		Name:  "a duplicate that has waited is counted for ever",
		Edits: []Edit{{In: "(*Group).exit", Old: "g.waiters.calls--", New: ""}},
		Tests: in("", "TestWaitingDuplicatesAreBounded"),
	},
	{
		Name:  "a call that waits for another process is not counted",
		Edits: []Edit{{In: "(*Group).Pause", Old: "if err := g.enter(bytes); err != nil {", New: "if err := error(nil); err != nil {"}},
		Tests: in("", "TestWaitingForAnotherProcessIsBounded"),
	},
	{
		Name:  "followers wait for the store one after another",
		Edits: []Edit{{In: "flight.(*Flight).Wait", Old: "leaderLeft && f.refused != nil", New: "leaderLeft && f.refused != nil && false"}},
		Tests: in("", "TestFollowersShareARefusal"),
	},
	{
		Name:  "a follower is refused because its leader has less patience",
		Edits: []Edit{{In: "flight.(*Flight).Wait", Old: "f.terms == p.Terms", New: "f.terms.Isolation == p.Terms.Isolation"}},
		Tests: in("", "TestARefusalOfTheLeadersOwn"),
	},
	{
		Name: "who follows a leader that has lost its transaction waits for it",
		Edits: []Edit{{In: "(*Group).Join", Old: `if !isClosed(f.lost) {
	return f, false
}`, New: "return f, false"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestIdleDuplicate", Hangs: true}},
	},
}
