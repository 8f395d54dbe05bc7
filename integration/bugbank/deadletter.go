package bugbank

// deadletterMutants are bugs of package deadletter.
var deadletterMutants = []Mutant{
	{
		Name:  "a count that was ended by its bound does not say so",
		Edits: []Edit{{In: "deadletter.(*Letters).count", Old: "read >= int64(f.Most)", New: "read > int64(f.Most)"}},
		Tests: []Killer{{Module: "integration", Package: "deadletter", Test: "TestMostLetters"}},
	},
	{
		Name:  "a bounded list of dead letters ends with its bound",
		Edits: []Edit{{In: "deadletter.(*Letters).List", Old: `where, args = where+" and uid <= ?", append(args, next)`, New: `where, args, next = where+" and uid <= ?", append(args, next), ""`}},
		Tests: []Killer{{Module: "integration", Package: "deadletter", Test: "TestMostLetters"}},
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
		Tests: deadletterOn("TestCanaryDecidesAboutTheRest$/^SQLite$"),
	},
	{
		Name:  "a second redrive chooses letters of the first one",
		Edits: []Edit{{In: "deadletter.(*plan).where", Old: "and redrive_at is null and", New: "and"}},
		Tests: deadletterOn("TestRedriveByCause$/^SQLite$"),
	},
	{
		Name:  "letters beyond the retention are redriven without being asked for",
		Edits: []Edit{{In: "deadletter.(*plan).where", Old: "!p.FailedSince.IsZero()", New: "false"}},
		Tests: deadletterOn("TestRedriveBeyondRetention$/^SQLite$"),
	},
	{
		Name:  "a redrive that is cancelled leaves its letters due",
		Edits: []Edit{{In: "deadletter.(*Letters).callBack", Old: "set redrive = '', redrive_at = null where", New: "set redrive = '' where"}},
		Tests: deadletterOn("TestCancelOfARedrive$/^SQLite$"),
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
		Name:  "gauges count all rows of a table",
		Edits: []Edit{{In: "deadletter.(*Letters).Gauges", Old: "int64(upkeep.MaxBacklog)", New: "int64(10*upkeep.MaxBacklog)"}},
		Tests: []Killer{{Module: "integration", Package: "telemetry", Test: "TestGaugesAreBounded"}},
	},
}
