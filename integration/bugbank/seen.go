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
	{
		Name:  "a message behind a failing one of its key counts as ready",
		Edits: []Edit{{In: "(*topicReader).readHeads", Old: "f.id < o.id", New: "f.id > o.id"}},
		Tests: outboxOn("TestTopics$/^SQLite$"),
	},
	{
		Name:  "a topic that is held back counts as ready",
		Edits: []Edit{{In: "outbox.readTopics", Old: "t.Ready = time.Time{}", New: "_ = t.Ready"}},
		Tests: outboxOn("TestTopics$/^SQLite$"),
	},
	{
		Name:  "what a dead relay has told is believed",
		Edits: []Edit{{In: "(*topicReader).readWaits", Old: "n.expires > NOW", New: "n.expires <> NOW"}},
		Tests: outboxOn("TestRelayTellsOfTopics$/^SQLite$"),
	},
	{
		Name:  "a relay does not tell that a destination does not answer",
		Edits: []Edit{{In: "(*board).waits", Old: "n.reason, n.since = WaitHanging, first[t]", New: "n.since = first[t]"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestRelayTellsOfTopics$/^SQLite$", Hangs: true}},
	},
	{
		Name:  "a relay does not tell that a destination is back",
		Edits: []Edit{{In: "(*waitWriter).write", Old: "over = append(over, topic)", New: "_ = topic"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestRelayTellsOfTopics$/^SQLite$", Hangs: true}},
	},
	{
		Name:  "the doctor does not name a topic that is down",
		Edits: []Edit{{In: "operate.WaitsOf", Old: "w.For != outbox.WaitPaused", New: "w.For == outbox.WaitPaused"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestOutboxTopics"}},
	},
}
