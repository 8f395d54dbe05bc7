package bugbank

func relayTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "outbox", Test: test}}
}

// relayMutants are bugs of the relay of an outbox.
var relayMutants = []Mutant{
	{
		Name:  "a transaction that has locked messages of some topics holds all others up",
		Edits: []Edit{{In: "outbox.(*Relay).write", Old: "case over:", New: "case over && most > time.Hour:"}},
		Tests: relayTest("TestRelayLockedRows$/^pgxstore"),
	},
	{
		Name:  "an error of a publisher that cannot be read is read",
		Edits: []Edit{{In: "outbox.(*Relay).answer", Old: "errs[i] = readable(err)", New: "errs[i] = err"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestPublisherReturnsNilPointers"}},
	},
	{
		Name:  "a destination puts a message off for years",
		Edits: []Edit{{In: "outbox.(*Relay).next", Old: "After: min(after, maxAfterOfKey)", New: "After: after"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestDestinationAsksForYears"}},
	},
	{
		Name:  "a commit behind that of another transaction wakes no relay",
		Edits: []Edit{{In: "outbox.(*Relay).Wake", Old: "added == r.wokenFor.Load() && now-r.wokenAt.Load() < int64(wakeAgain)", New: "added == r.wokenFor.Load()"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestWake"}},
	},
	{
		Name:  "a message is delivered before the one that committed late",
		Edits: []Edit{{In: "outbox.(*board).sort", Old: "unsure = append(unsure, it)", New: ""}},
		Tests: relayTest("TestRelayLatePredecessor$/^pgxstore"),
	},
	{
		Name:  "what commits below the mark is not looked for",
		Edits: []Edit{{In: "outbox.(*board).foundRows", Old: "q.rewind(lowest, now)", New: ""}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestLateCommit"}},
	},
	{
		Name:  "what commits late while its queue is in use is lost",
		Edits: []Edit{{In: "outbox.(*queue).finish", Old: "q.late > 0", New: "q.late < 0"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestLateCommit"}},
	},
	{
		Name:  "a claim begins at the mark, whatever commits late",
		Edits: []Edit{{In: "outbox.(*queue).low", Old: "min(q.from, q.mark)", New: "q.mark"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestClaimsBeginAMomentAgo"}},
	},
	{
		Name:  "a mark passes a message that was not published",
		Edits: []Edit{{In: "outbox.(*queue).finishClaim", Old: "mark = left - 1", New: "mark = max(mark, left-1)"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestTopicDown"}},
	},
	{
		Name:  "pages end before what waits is delivered",
		Edits: []Edit{{In: "outbox.(*queue).finish", Old: "q.waiting = q.found", New: "q.waiting = false"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestPages"}},
	},
	{
		Name:  "a message is removed before its delivery is confirmed",
		Edits: []Edit{{In: "outbox.(*finisher).writeDown", Old: "case outcomeLeft, outcomeWaits:", New: "case outcomeWaits:"}, {In: "outbox.(*finisher).writeDown", Old: "case outcomeDelivered:", New: "case outcomeDelivered, outcomeLeft:"}},
		Tests: relayTest("TestRelayUnavailable$/^SQLite$"),
	},
	{
		Name:  "a relay removes messages of parts that it does not hold any more",
		Edits: []Edit{{In: "outbox.(*Relay).removeIn", Old: `listed+" and "+still`, New: `listed+" and (1 = 1 or "+still+")"`}},
		Tests: relayTest("TestRelayFence$/^SQLite$"),
	},
	{
		Name:  "a failing message does not block its key",
		Edits: []Edit{{In: "outbox.(*board).sort", Old: "it.blocked ||", New: ""}, {In: "outbox.(*board).sort", Old: "last != m.Seq-1 &&", New: "last > m.Seq &&"}},
		Tests: relayTest("TestRelayScheduleIsKept$/^SQLite$"),
	},
	{
		Name:  "a topic that is down is not put aside",
		Edits: []Edit{{In: "outbox.(*topic).ready", Old: "now.Before(t.until)", New: "false"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestTopicThatIsNotReady"}},
	},
	{
		Name:  "a topic that is down is tried with a whole batch",
		Edits: []Edit{{In: "outbox.(*topic).allowed", Old: "t.down > 0", New: "t.down < 0"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestTopicDown"}},
	},
	{
		Name:  "a topic takes more calls than its concurrency",
		Edits: []Edit{{In: "outbox.(*topic).ready", Old: "t.paused, t.calls >= t.Concurrency", New: "t.paused"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestTopicThatIsNotReady"}},
	},
	{
		Name:  "topics that have never answered take every call",
		Edits: []Edit{{In: "outbox.(*board).mayCall", Old: "!t.answered && b.unknown >= maxUnknown", New: "false"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestCallsAreBounded"}},
	},
	{
		Name:  "topics in trouble take every call",
		Edits: []Edit{{In: "outbox.(*board).mayCall", Old: "return bad < maxCalls/2", New: "return bad >= 0"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestCallsAreBounded"}},
	},
	{
		Name:  "topics that begin to hang take every call",
		Edits: []Edit{{In: "outbox.(*board).mayCall", Old: "return t.calls == 0", New: "return true"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestTopicsThatBeginToHang"}},
	},
	{
		Name:  "a topic that was idle waits for those with a backlog",
		Edits: []Edit{{In: "outbox.(*board).append", Old: "t.answered && now.Sub(t.used) > minPace", New: "false"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestIdleTopicComesFirst"}},
	},
	{
		Name:  "failing messages of a queue have no bound",
		Edits: []Edit{{In: "outbox.(*queue).full", Old: "q.failing >= maxFailing", New: "q.failing < 0"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestTopicStopsAtFailures"}},
	},
	{
		Name:  "an outage of which no error tells makes failures",
		Edits: []Edit{{In: "outbox.outage", Old: "failed < probeRows", New: "failed >= 0"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestOutage"}},
	},
	{
		Name:  "each failure is a statement",
		Edits: []Edit{{In: "outbox.(*Relay).failed", Old: "slices.Chunk(items, maxQueues)", New: "slices.Chunk(items, 1)"}},
		Tests: relayTest("TestRelayBatchIsTwoStatements"),
	},
	{
		Name:  "a relay that reaches nothing keeps its parts",
		Edits: []Edit{{In: "outbox.(*Relay).yield", Old: "giveUp()", New: ""}},
		Tests: relayTest("TestRelayGivesItsPartsUp$/^SQLite$"),
	},
	{
		Name:  "a part is read whose failures are not known",
		Edits: []Edit{{In: "outbox.(*board).foundRows", Old: "q == nil || !b.parts[part].known", New: "q == nil"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestFoundFailures"}},
	},
	{
		Name:  "a queue of a part that was lost is read",
		Edits: []Edit{{In: "outbox.(*board).dropPart", Old: "q.part.Number == number", New: "q.part.Number < 0"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestLostPart"}},
	},
	{
		Name:  "messages behind a failing one of the same batch count as tried",
		Edits: []Edit{{In: "outbox.(*Relay).publishItems", Old: "waiting[keyOf{it.queue, it.message.Key}] = true", New: ""}},
		Tests: relayTest("TestRelayBlockedKey$/^SQLite$"),
	},
	{
		Name:  "attempts are counted anew each time",
		Edits: []Edit{{In: "outbox.(*Relay).failedSome", Old: "f = *it.failure", New: "_ = f"}},
		Tests: relayTest("TestRelayBlockedKey$/^SQLite$"),
	},
	{
		Name:  "a destination that is down costs attempts",
		Edits: []Edit{{In: "outbox.(*Relay).publishItems", Old: "case IsUnavailable(err):", New: "case IsUnavailable(err) && it.attempt > 1:"}},
		Tests: relayTest("TestRelayUnavailable$/^SQLite$"),
	},
	{
		Name:  "a message that is given up is tried again",
		Edits: []Edit{{In: "outbox.(*Relay).next", Old: `wait, stop != ""`, New: "wait, false"}},
		Tests: relayTest("TestRelayStops$/^SQLite$"),
	},
	{
		Name:  "a paused topic is delivered",
		Edits: []Edit{{In: "outbox.(*topic).ready", Old: "case t.paused, ", New: "case "}},
		Tests: relayTest("TestRelayPause$/^SQLite$"),
	},
	{
		Name:  "a delivery on its way is cancelled when the relay ends",
		Edits: []Edit{{In: "outbox.(*Relay).answer", Old: "context.WithoutCancel(ended)", New: "ended"}},
		Tests: relayTest("TestRelayDrains$/^SQLite$"),
	},
	{
		Name:  "a commit does not wake the relay",
		Edits: []Edit{{In: "outbox.(*Relay).Wake", Old: "notify(r.woken)", New: ""}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestWake"}},
	},
}
