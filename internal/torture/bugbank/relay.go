package bugbank

func relayTest(test string) []Killer {
	return []Killer{{Module: "internal/torture", Package: "outbox", Test: test}}
}

// relayMutants are bugs of the relay of an outbox.
var relayMutants = []Mutant{
	{
		Name:  "a message is delivered before the one that committed late",
		Edits: []Edit{{In: "outbox.(*lane).ready", Old: "unsure = append(unsure, it)", New: ""}},
		Tests: relayTest("TestRelayLatePredecessor$/^pgxstore"),
	},
	{
		Name:  "what commits below the mark is not looked for",
		Edits: []Edit{{In: "outbox.(*lane).sweep", Old: "len(from) == 0", New: "len(from) >= 0"}},
		Tests: relayTest("TestRelayLateCommit$/^pgxstore"),
	},
	{
		Name:  "a message is removed before its delivery is confirmed",
		Edits: []Edit{{In: "outbox.(*lane).settle", Old: "case outcomeDelivered:", New: "case outcomeDelivered, outcomeWaits:"}},
		Tests: relayTest("TestRelayUnavailable$/^SQLite$"),
	},
	{
		Name:  "a relay removes messages of parts that it does not hold any more",
		Edits: []Edit{{In: "outbox.(*Relay).removeIn", Old: `listed+" and "+still`, New: `listed+" and (1 = 1 or "+still+")"`}},
		Tests: relayTest("TestRelayFence$/^SQLite$"),
	},
	{
		Name:  "a failing message does not block its key",
		Edits: []Edit{{In: "outbox.(*part).waits", Old: "behind || p.heads[s] != nil", New: "behind"}},
		Tests: relayTest("TestRelayScheduleIsKept$/^SQLite$"),
	},
	{
		Name:  "a topic that is down is not put aside",
		Edits: []Edit{{In: "outbox.(*topic).allowed", Old: "t.aside() ||", New: ""}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestTopicDown"}},
	},
	{
		Name:  "what waits for a topic that was down is not read again",
		Edits: []Edit{{In: "outbox.(*lane).sweep", Old: "p.mark > p.swept(all)", New: "p.mark < 0"}, {In: "outbox.(*part).rewind", Old: "p.mark, p.old, p.next = 0, 0, 0", New: ""}},
		Tests: relayTest("TestRelayTopicDown$/^SQLite$"),
	},
	{
		Name:  "messages behind a failing one of the same batch count as tried",
		Edits: []Edit{{In: "outbox.(*lane).publish", Old: "waiting[streamOf(&it.message)] = true", New: ""}},
		Tests: relayTest("TestRelayBlockedKey$/^SQLite$"),
	},
	{
		Name:  "attempts are counted anew each time",
		Edits: []Edit{{In: "outbox.(*lane).fail", Old: "*f = *before", New: "_ = before"}},
		Tests: relayTest("TestRelayBlockedKey$/^SQLite$"),
	},
	{
		Name:  "a destination that is down costs attempts",
		Edits: []Edit{{In: "outbox.(*lane).publish", Old: "case IsUnavailable(err):", New: "case IsUnavailable(err) && it.attempt > 1:"}},
		Tests: relayTest("TestRelayUnavailable$/^SQLite$"),
	},
	{
		Name:  "a message that is given up is tried again",
		Edits: []Edit{{In: "outbox.(*Relay).next", Old: `wait, stop != ""`, New: "wait, false"}},
		Tests: relayTest("TestRelayStops$/^SQLite$"),
	},
	{
		Name:  "a paused topic is delivered",
		Edits: []Edit{{In: "outbox.(*lane).isPaused", Old: "topic || key", New: "topic && key"}},
		Tests: relayTest("TestRelayPause$/^SQLite$"),
	},
	{
		Name:  "a delivery on its way is cancelled when the relay ends",
		Edits: []Edit{{In: "outbox.(*Relay).answer", Old: "context.WithoutCancel(ended)", New: "ended"}},
		Tests: relayTest("TestRelayDrains$/^SQLite$"),
	},
	{
		Name:  "a commit does not wake the relay",
		Edits: []Edit{{In: "outbox.(*Relay).Observe", Old: "r.wake(r.added.Swap(0))", New: "r.added.Swap(0)"}},
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestWake"}},
	},
}
