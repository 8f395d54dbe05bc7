package bugbank

func deadletterOn(test string) []Killer {
	return []Killer{{Module: "integration", Package: "deadletter", Test: test}}
}

// deadletterMutants are bugs of dead letters, of their redrive, and of relays that write them.
var deadletterMutants = []Mutant{
	{
		Name:  "two processes apply the same letter",
		Edits: []Edit{{In: "letter.Take", Old: "return n > 0, err", New: "return n >= 0, err"}},
		Tests: deadletterOn("TestLetterLife$/^SQLite$"),
	},
	{
		Name:  "a redrive goes on from its beginning when it is resumed",
		Edits: []Edit{{In: "deadletter.(*Letters).schedule", Old: "total = total + ? where", New: "total = ? where"}},
		Tests: deadletterOn("TestRedriveResumed$/^SQLite$"),
	},
	{
		Name:  "a redrive that is resumed begins its rate anew",
		Edits: []Edit{{In: "deadletter.(*Letters).schedule", Old: "due.Before(is.now)", New: "due != is.now"}},
		Tests: deadletterOn("TestRedriveResumed$/^SQLite$"),
	},
	{
		Name:  "a redrive ends when the answer to a COMMIT is lost",
		Edits: []Edit{{In: "deadletter.(*Letters).Resume", Old: "continue", New: "return l.Progress(ctx, uid)"}},
		Tests: deadletterOn("TestRedriveFaults$/^SQLite$/^redrive,_answer_lost$"),
	},
	{
		Name:  "the other letters follow a canary that has failed",
		Edits: []Edit{{In: "deadletter.(*Letters).judge", Old: "if applied {", New: "if applied || true {"}},
		Tests: deadletterOn("TestCanary$/^SQLite$"),
	},
	{
		Name:  "a second redrive chooses letters of the first one",
		Edits: []Edit{{In: "deadletter.(*plan).where", Old: "and redrive_at is null and", New: "and"}},
		Tests: deadletterOn("TestRedrive$/^SQLite$"),
	},
	{
		Name:  "letters beyond the retention are redriven without being asked for",
		Edits: []Edit{{In: "deadletter.(*plan).where", Old: "!p.FailedSince.IsZero()", New: "false"}},
		Tests: deadletterOn("TestRedriveBeyondRetention$/^SQLite$"),
	},
	{
		Name:  "a redrive that is cancelled leaves its letters due",
		Edits: []Edit{{In: "deadletter.(*Letters).callBack", Old: "set redrive = '', redrive_at = null where", New: "set redrive = '' where"}},
		Tests: deadletterOn("TestCancel$/^SQLite$"),
	},
	{
		Name:  "the place of a discarded message is not given up",
		Edits: []Edit{{In: "deadletter.(*Letters).leaveInbox", Old: "set seq = seq + 1, dead = ?", New: "set seq = seq + 0, dead = ?"}},
		Tests: deadletterOn("TestDiscardInbox$/^InOrder$/^SQLite$"),
	},
	{
		Name:  "to discard a message gives up the place of another one",
		Edits: []Edit{{In: "deadletter.(*Letters).leaveInbox", Old: " || one.Class == classMismatch", New: ""}},
		Tests: deadletterOn("TestDiscardOtherMessage$/^SQLite$"),
	},
	{
		Name:  "what is discarded is not audited",
		Edits: []Edit{{In: "deadletter.(*Letters).discard", Old: `return r.Append(ctx, audit.Insert(l.db.Dialect(), audit.Entry{Who: who, Action: "discard", Scope: scopeOf(f), Reason: reason, Detail: detail}))`, New: "_, _ = audit.Insert, detail\nreturn nil"}},
		Tests: deadletterOn("TestRedriveKilled$/^discard,_SQLite$"),
	},
	{
		Name:  "a delivery does not resolve its letter",
		Edits: []Edit{{In: "outbox.(*Relay).removeWithLetters", Old: "it.failure == nil &&", New: ""}},
		Tests: deadletterOn("TestRelayLetters$/^SQLite$"),
	},
	{
		Name:  "a message that is given up becomes no letter",
		Edits: []Edit{{In: "outbox.(*Relay).note", Old: "!it.nextAt.IsZero()", New: "it.nextAt.IsZero()"}},
		Tests: deadletterOn("TestRelayLetters$/^SQLite$"),
	},
	{
		Name:  "a letter that waits for a person is swept",
		Edits: []Edit{{In: "letter.Sweep", Old: "where state <> 'dead' and resolved_at < AGO(?)", New: "where dead_at < AGO(?)"}, {In: "letter.Sweep", Old: "where uid = ? and state <> 'dead'", New: "where uid = ?"}},
		Tests: deadletterOn("TestSweep$/^SQLite$"),
	},
	{
		Name:  "a letter that died after a person has looked is discarded",
		Edits: []Edit{{In: "(*Between).Read", Old: "*before, err = instant(", New: "_, err = instant("}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDeadletterBefore$/^SQLite$"}},
	},
}
