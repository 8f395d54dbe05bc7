package bugbank

// isolationMutants are bugs by which topics in trouble delay others, or are kept longer in trouble than need be.
var isolationMutants = []Mutant{
	{
		Name:  "a topic that is down is tried with all its messages",
		Edits: []Edit{{In: "outbox.(*topic).allowed", Old: "n = min(n, t.probe)", New: "_ = t.probe"}},
		Tests: relayTest("TestIsolationDown$/^pgxstore"),
	},
	{
		Name:  "a topic may have any number of failing messages",
		Edits: []Edit{{In: "outbox.(*queue).full", Old: "q.failing >= maxFailing", New: "q.failing < 0"}},
		Tests: relayTest("TestIsolationFailing$/^pgxstore"),
	},
	{
		Name:  "an outage of which no error tells counts as failures",
		Edits: []Edit{{In: "outbox.outage", Old: "failed < probeRows", New: "failed >= 0"}},
		Tests: relayTest("TestIsolationAllFail$/^pgxstore"),
	},
	{
		Name:  "a topic that is down waits as long as a message that has failed",
		Edits: []Edit{{In: "outbox.(*board).isDown", Old: "d = min(d, max(probeMost, time.Duration(b.downs)*probeEach))", New: "_ = probeMost"}},
		Tests: relayTest("TestIsolationOutage$/^pgxstore"),
	},
	{
		Name:  "a claim is for one queue",
		Edits: []Edit{{In: "outbox.(*board).pick", Old: "queues < maxQueues", New: "queues < 1"}},
		Tests: relayTest("TestIsolationDrain$/^pgxstore"),
	},
}
