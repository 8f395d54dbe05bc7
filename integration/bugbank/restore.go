package bugbank

func restored(test string) []Killer {
	return []Killer{{Module: "integration", Package: "restore", Test: test + "$/^SQLite$"}}
}

// restoreMutants are bugs of what is done after a restore from a backup.
var restoreMutants = []Mutant{
	{
		Name:  "keys that the backup does not have begin at 1 again",
		Edits: []Edit{{In: "outbox.insertOf", Old: "1 + coalesce((select seq from once_stream_start where id = 1), 0)", New: "1"}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "numbers are moved while messages with a key wait",
		Edits: []Edit{{In: "outbox.(*Box).Renumber", Old: "if waits {", New: "if waits && after > 0 {"}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "a second restore of a backup gets the numbers of the first one",
		Edits: []Edit{{In: "outbox.(*Box).Renumber", Old: "max(now.UnixMilli(), most, start+1)", New: "max(now.UnixMilli()*0+1_000_000, most, start+1)"}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "the numbers of keys that are there are not moved",
		Edits: []Edit{{In: "outbox.(*Box).Renumber", Old: `{"once_stream_start", "once_stream"}`, New: `{"once_stream_start"}`}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "an inbox does not follow a sender that was renumbered",
		Edits: []Edit{{In: "inbox.(*pass).starts", Old: "if at.dead {", New: "if at.dead || it.ordered {"}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "any message behind the number begins its key",
		Edits: []Edit{{In: "inbox.(*pass).starts", Old: "and seq = ? and not exists", New: "and seq <= ? and not exists"}},
		Tests: restored("TestARenumberedInboxKeepsTheOrder"),
	},
	{
		Name:  "a key passes over an earlier message that is parked",
		Edits: []Edit{{In: "inbox.(*pass).starts", Old: "and KEY = ? and seq < ?)", New: "and KEY = ? and seq < ? - 1000000)"}},
		Tests: restored("TestARenumberedInboxKeepsTheOrder"),
	},
	{
		Name:  "keys that wait for a renumbered sender do not go on",
		Edits: []Edit{{In: "inbox.(*Inbox).waitingAt", Old: "and k.seq = ? and p.seq", New: "and k.seq = ? + 1 and p.seq"}},
		Tests: restored("TestARenumberedInboxKeepsTheOrder"),
	},
	{
		Name:  "what was delivered since the backup is not sent again",
		Edits: []Edit{{In: "operate.(*Outbox).since", Old: "m.SentAt.Before(s.At) ||", New: "m.SentAt.After(s.At) ||"}},
		Tests: restored("TestARestoredConsumer"),
	},
	{
		Name:  "the doctor does not see calls under way",
		Edits: []Edit{{In: "doctor.askCalls", Old: `calling+" and not ("+ofSagas+")"`, New: `"not "+calling+" and not ("+ofSagas+")"`}},
		Tests: restored("TestRestoredCalls"),
	},
	{
		Name:  "the doctor does not see that numbers were moved",
		Edits: []Edit{{In: "doctor.askNumbers", Old: "after > p.RestoredTo.UnixMilli()", New: "after > p.RestoredTo.UnixMicro()"}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "once outbox renumber needs no --yes",
		Edits: []Edit{{In: "outbox.(*renumber).Run", Old: "if !c.yes {", New: "if c.db == \"-\" {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestAfterARestore"}},
	},
}
