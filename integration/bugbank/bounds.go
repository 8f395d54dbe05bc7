package bugbank

// boundMutants wait without end, or keep without end what clients send.
var boundMutants = []Mutant{
	{
		Name:  "the answer of a silent server is waited for without end",
		Edits: []Edit{{In: "awaitAnswer", Old: "if limit > 0 {", New: "if limit > time.Hour {"}},
		Tests: in("store/pgxstore", "TestASilentServerIsNamed"),
	},
	{
		Name:  "a server that is silent to the first question of a store is not named",
		Edits: []Edit{{In: "pgxstore.(*Store).acquire", Old: "case own.Err() != nil && ctx.Err() == nil:", New: "case false:"}},
		Tests: in("store/pgxstore", "TestASilentServerIsNamed"),
	},
	{
		Name:  "a replay that must be durable waits for its server without end",
		Edits: []Edit{{In: "pgxstore.(*txn).synced", Old: "awaitAnswer(t.conn.Conn(), limit)", New: "awaitAnswer(t.conn.Conn(), 0*limit)"}},
		Tests: in("store/pgxstore", "TestASilentServerIsNamed"),
	},
	{
		Name:  "the first statement of a first attempt is waited for without end",
		Edits: []Edit{{In: "(*firstAttempt).answerTime", Old: "return limit + f.opts.Timeouts.Statement", New: "return 0"}},
		Tests: in("store/pgxstore", "TestASilentServer"),
	},
	{
		Name:  "a statement of a handler is waited for without end",
		Edits: []Edit{{In: "(*session).awaitAnswer", Old: "if s.over {", New: "if s != nil {"}},
		Tests: in("store/pgxstore", "TestAStatementOfASilentServer"),
	},
	{
		Name:  "database/sql waits without end for a statement of a handler",
		Edits: []Edit{{In: "sqlstore.(*Store).Begin", Old: "open && opts.Timeouts.Statement > 0", New: "open && opts.Timeouts.Statement < 0"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestAServerThatFallsSilent"}},
	},
	{
		Name:  "a first statement that takes long is taken for a silent server",
		Edits: []Edit{{In: "(*firstAttempt).answerTime", Old: "return 0", New: "return limit"}},
		Tests: in("store/pgxstore", "TestALongFirstStatement"),
	},
	{
		Name:  "database/sql waits without end for a server that is silent",
		Edits: []Edit{{In: "sqlstore.(*Store).Begin", Old: "limit := 2*opts.Timeouts.Acquire + opts.Timeouts.Lock", New: "limit := time.Hour"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestASilentServer"}},
	},
	{
		Name:  "a follower waits for a leader that has had no answer",
		Edits: []Edit{{In: "(*Flight).wait", Old: "timeout, end = t.C, EndUnknown", New: "end = EndUnknown"}},
		Tests: in("", "TestAFollowerOfASilentStore"),
	},
	{
		Name:  "any number of duplicates may wait",
		Edits: []Edit{{In: "(*Group).enter", Old: "w.calls >= w.maxCalls ||", New: ""}},
		Tests: in("", "TestWaitingDuplicatesAreBounded"),
	},
	{
		Name:  "duplicates that wait may keep any number of bytes",
		Edits: []Edit{{In: "(*Group).enter", Old: "|| w.bytes+bytes > w.maxBytes", New: ""}},
		Tests: in("", "TestWaitingDuplicatesAreBounded"),
	},
	{
		Name:  "a duplicate that has waited is counted for ever",
		Edits: []Edit{{In: "(*Group).exit", Old: "g.waiters.calls--", New: ""}},
		Tests: in("", "TestWaitingDuplicatesAreBounded"),
	},
	{
		Name:  "a call that waits for another process is not counted",
		Edits: []Edit{{In: "(*Group).Pause", Old: "if err := g.enter(bytes); err != nil {", New: "if err := error(nil); err != nil {"}},
		Tests: in("", "TestWaitingForAnotherProcessIsBounded"),
	},
	{
		Name:  "the bodies of requests that wait are not counted",
		Edits: []Edit{{In: "(*Exchange).operation", Old: "op.Attempt.Bytes = body.size", New: ""}},
		Tests: in("oncehttp", "TestBodiesOfWaitersAreBounded"),
	},
	{
		Name:  "a result of any size is stored",
		Edits: []Edit{{In: "once.marshal", Old: "int64(len(b)) > limit", New: "limit < 0"}},
		Tests: in("", "TestAResultThatIsTooLarge"),
	},
	{
		Name:  "a replay from the cache needs a look-up of the store",
		Edits: []Edit{{In: "(*Limiter).replay", Old: "if replay.Cached() {", New: "if replay.Cached() && l == nil {"}},
		Tests: in("limit", "TestCachedReplaysPassABusyTenant"),
	},
	{
		Name:  "one tenant takes all look-ups",
		Edits: []Edit{{In: "(*share).take", Old: "s.free == 0 || s.shared && s.taken[tenant] >= s.free", New: "s.free == 0"}},
		Tests: in("limit", "TestCachedReplaysPassABusyTenant"),
	},
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
}

// lockMutants let a second process open a file, or lead to a file that is another one's.
var lockMutants = []Mutant{
	{
		Name:  "a file that was replaced before it was locked is taken",
		Edits: []Edit{{In: "lockedfile.Open", Old: "err == nil && current", New: "err == nil && (current || f != nil)"}},
		Tests: in("internal/base/lockedfile", "TestOneOwnerAtATime"),
	},
	{
		Name:  "a symbolic link is followed",
		Edits: []Edit{{In: "lockedfile.Open", Old: "os.O_RDWR|os.O_CREATE|noFollow", New: "os.O_RDWR|os.O_CREATE"}},
		Tests: []Killer{{Module: ".", Package: "internal/base/lockedfile", Test: "TestOpenNeverFollowsALinkOrTruncates", Hangs: true}},
	},
	{
		Name:  "the file that compaction writes is not locked",
		Edits: []Edit{{In: "lockedfile.Create", Old: "if err := lock(f); err != nil {", New: "if err := error(nil); err != nil {"}},
		Tests: in("retry/journal", "TestNoSecondOwner"),
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
		Name:  "the manifest of an archive has no lock",
		Edits: []Edit{{In: "archive.(osFiles).open", Old: "if !lockedfile.Supported {", New: "if lockedfile.Supported {"}},
		Tests: in("retention/archive", "TestNoSecondWriter"),
	},
}
