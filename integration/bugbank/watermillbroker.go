package bugbank

// watermillbrokerMutants are bugs of package broker/watermillbroker.
var watermillbrokerMutants = []Mutant{
	{
		Name:  "a failed message is given back to Watermill at once",
		Edits: []Edit{{In: "watermillbroker.(*consumer).consume", Old: "min(max(after, shortestWait), longestWait)", New: "min(after, 0)"}},
		Tests: []Killer{{Module: "broker/watermillbroker", Test: "TestConsumerAcknowledgesAppliedMessages"}},
	},
	{
		Name:  "messages that a handler of Watermill returns are dropped",
		Edits: []Edit{{In: "watermillbroker.Apply", Old: "err == nil && len(produced) > 0", New: "err == nil && len(produced) > 99"}},
		Tests: []Killer{{Module: "broker/watermillbroker", Test: "TestApplyGivesEventAndTransaction"}},
	},
}
