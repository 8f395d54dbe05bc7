package bugbank

// journalMutants are bugs of package retry/journal.
var journalMutants = []Mutant{
	{
		Name:  "a journal takes any number of intents",
		Edits: []Edit{{In: "(*File).room", Old: "open < f.cfg.MaxOpen &&", New: ""}},
		Tests: in("retry/journal", "TestAFullJournal"),
	},
	{
		Name:  "the intents of a journal may have any number of bytes",
		Edits: []Edit{{In: "(*File).room", Old: "&& bytes+r.size() <= f.cfg.MaxBytes", New: ""}},
		Tests: in("retry/journal", "TestAFullJournal"),
	},
	{
		Name:  "an intent is written to a file that was removed",
		Edits: []Edit{{In: "journal.(*File).put", Old: "if err := f.current(); err != nil {", New: "if err := error(nil); err != nil {"}},
		Tests: in("retry/journal", "TestAJournalThatWasTakenAway"),
	},
	{
		Name:  "a journal is written over the one that has taken its place",
		Edits: []Edit{{In: "journal.(*File).replace", Old: "err = f.current()", New: "err = error(nil)"}},
		Tests: in("retry/journal", "TestAJournalThatWasTakenAway"),
	},
	{
		Name:  "a request is sent before its intent is on the disk",
		Edits: []Edit{{In: "(*File).Begin", Old: "if err := f.flush(b); err != nil {", New: "if err := error(nil); err != nil {"}},
		Tests: in("retry/retryhttp", "TestIntentComesFirst"),
	},
	{
		Name:  "an intent is written, and not flushed",
		Edits: []Edit{{In: "(*File).begin", Old: "append(f.next.opened, e), true", New: "append(f.next.opened, e), false"}},
		Tests: in("retry/journal", "TestAFailedFlushIsNotTrusted"),
	},
	{
		Name:  "the end of an intent waits for a journal that hangs",
		Edits: []Edit{{In: "journal.End", Old: "context.WithTimeout(context.WithoutCancel(ctx), endTime)", New: "context.WithTimeout(context.WithoutCancel(ctx), 1000*endTime)"}},
		Tests: in("retry/retryhttp", "TestHungJournalDelaysTheEnd"),
	},
	{
		Name:  "a record that was torn is believed",
		Edits: []Edit{{In: "(salt).frameAt", Old: "if binary.BigEndian.Uint32(rest[16:]) != s.sum(offset+1, payload) {", New: "if len(payload) == 0 {"}},
		Tests: in("retry/journal", "TestDamageAtEveryByte"),
	},
	{
		Name:  "damage in what had been flushed is taken for a torn end",
		Edits: []Edit{{In: "journal.parse", Old: "if damage.Bytes > 0 && damage.Offset < flushed || flushed > int64(len(file)) {", New: "if damage.Bytes < 0 {"}},
		Tests: in("retry/journal", "TestDamageAtEveryByte"),
	},
	{
		Name:  "after a flush that has failed the next one is trusted",
		Edits: []Edit{{In: "(*File).put", Old: "return f.fail(errors.Join(err, f.out.Truncate(f.size)))", New: "return errors.Join(err, f.out.Truncate(f.size))"}},
		Tests: in("retry/journal", "TestFaultsOfTheDiskLoseNothing"),
	},
	{
		Name:  "a new file is given the name of the old one before it is on the disk",
		Edits: []Edit{{In: "(*File).replace", Old: "err = out.Sync()", New: ""}},
		Tests: in("retry/journal", "TestAFailedFlushIsNotTrusted"),
	},
	{
		Name:  "what another process may have sent is said not to be",
		Edits: []Edit{{In: "readTable", Old: "e.doubt = true", New: "e.doubt = false // by those"}},
		Tests: in("retry/journal", "TestOutcomesThatCloseAnIntent"),
	},
	{
		Name:  "what was planned with a business write is dropped if it cannot be sent",
		Edits: []Edit{{In: "(*Table).Insert", Old: "args, err = t.fields(&in, 1)", New: "args, err = t.fields(&in, 0)"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestIntentInATransaction"}},
	},
	{
		Name:  "a secret is written down",
		Edits: []Edit{{In: "journal.kept", Old: `"Accept",`, New: `"Authorization", "Accept",`}},
		Tests: in("retry/journal", "TestAnIntentOutlivesItsProcess"),
	},
	{
		Name:  "a redelivery is not paid for",
		Edits: []Edit{{In: "(*resumed).pay", Old: "case m.begun || b == nil:", New: "case m.begun || b != nil:"}},
		Tests: in("retry/retryhttp", "TestResumeIsNoStorm"),
	},
	{
		Name:  "what was answered does not get its price back",
		Edits: []Edit{{In: "(*resumption).send", Old: "if e.meets != fails && m.paid != nil {", New: "if e.meets == nothing && m.paid != nil {"}},
		Tests: in("retry/retryhttp", "TestResumeIsNoStorm"),
	},
	{
		Name:  "what always fails is always resumed first",
		Edits: []Edit{{In: "(*destination).next", Old: "if d.failing || d.broke {", New: "if len(d.list) == 0 {"}},
		Tests: in("retry/retryhttp", "TestResumePoison"),
	},
	{
		Name:  "an intent that was closed is made again by who resumes it",
		Edits: []Edit{{In: "Begin", Old: `in.ID, m.id = m.id, ""`, New: `in.ID, m.id = "", m.id`}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestResumeOfWhatIsGone"}},
	},
	{
		Name: "nothing says that the last batch was flushed",
		Edits: []Edit{{In: "(*File).put", Old: `if b.flush {
f.writeFlushFrame()`, New: `if b.err != nil {
f.writeFlushFrame()`}},
		Tests: in("retry/journal", "TestTheLastBatchIsMarked"),
	},
	{
		Name: "a journal is opened where nothing keeps others out",
		Edits: []Edit{{In: "(*File).take", Old: "case errors.Is(err, errors.ErrUnsupported):", New: `case errors.Is(err, errors.ErrUnsupported):
if out, err = (osDisk{}).open(f.path); err == nil {
	break
}`}},
		Tests: in("retry/journal", "TestNoLock"),
	},
	{
		Name:  "what was refused in a database stays there",
		Edits: []Edit{{In: "(*Table).Begin", Old: "return in, errors.Join(err, t.withdraw(ctx, mine.ID))", New: "return in, err"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestBeginIsAllOrNothing"}},
	},
	{
		Name:  "what is withdrawn is the intent of another call by now",
		Edits: []Edit{{In: "(*Table).withdraw", Old: `"delete from once_intent where id = ? and calls = 1", id)`, New: `"delete from once_intent where id = ?", id)`}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestBeginIsAllOrNothing"}},
	},
	{
		Name:  "that a key expires sooner is not flushed",
		Edits: []Edit{{In: "journal.(*File).end", Old: "e.Expires, e.Held, f.next.flush = expires, held, true", New: "e.Expires, e.Held = expires, held"}},
		Tests: in("retry/journal", "TestANoteOutlivesThePower"),
	},
	{
		Name:  "the ID of an intent that is closed is that of another one later",
		Edits: []Edit{{In: "journal.(*table).apply", Old: "t.last = max(t.last, r.ID)", New: ""}},
		Tests: in("retry/journal", "TestNoIDTwice"),
	},
}
