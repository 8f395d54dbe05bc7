package bugbank

// demoMutants are bugs of a demo that would not see what it looks for.
var demoMutants = []Mutant{
	{
		Name:  "the demo does not see that an event is booked twice",
		Edits: []Edit{{In: "killstorm.check", Old: "a.twice++", New: "a.twice += 0"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestCheckBookings"}},
	},
	{
		Name:  "the demo does not see that events are booked out of order",
		Edits: []Edit{{In: "killstorm.check", Old: "b.seq != last[b.key]+1 || b.place != b.seq", New: "b.seq < last[b.key]"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestCheckBookings"}},
	},
	{
		Name:  "the demo does not see that an order is charged twice",
		Edits: []Edit{{In: "(orderOutcome).contradicts", Old: "case len(made) > 1:", New: "case len(made) > 2:"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestProvidersReport"}},
	},
}
