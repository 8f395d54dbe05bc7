package bugbank

// identityMutants are messages that are taken for others: by their ID, their number or their letter.
var identityMutants = []Mutant{
	{
		Name:  "two messages of two keys with the same ID are one letter",
		Edits: []Edit{{In: "inbox.(*Inbox).letterID", Old: "Topic: m.Topic, Key: m.Key, Seq: m.Seq", New: "Topic: m.Topic"}},
		Tests: inboxOn("TestKeysShareAnID$/^SQLite$"),
	},
	{
		Name:  "two messages of an outbox with the same ID are one letter",
		Edits: []Edit{{In: "outbox.letterID", Old: "Topic: m.Topic, Key: m.Key, Seq: m.Seq", New: "Topic: m.Topic"}},
		Tests: deadletterOn("TestRelayLettersOfOneID$/^SQLite$"),
	},
	{
		Name:  "a letter that was not written is no error",
		Edits: []Edit{{In: "letter.Bury", Old: `err == nil && l.UID == ""`, New: `err != nil && l.UID == ""`}},
		Tests: deadletterOn("TestLetterIsWritten"),
	},
	{
		Name:  "a message is acknowledged because another one is the dead letter of its place",
		Edits: []Edit{{In: "inbox.(*pass).blocked", Old: "if own || err != nil {", New: "if own || err == nil {"}},
		Tests: inboxOn("TestPlaceOfALetter$/^SQLite$"),
	},
	{
		Name:  "malformed messages whose texts are alike after a cut are one letter",
		Edits: []Edit{{In: "inbox.storable", Old: "printable.Cut(shown, message.MaxText-len(mark)) + mark", New: "printable.Cut(shown, message.MaxText-len(mark))"}},
		Tests: inboxOn("TestMalformedKeys"),
	},
	{
		Name:  "topic, key and type of a message with a known ID are not compared",
		Edits: []Edit{{In: "inbox.(*known).outcome", Old: "&& sameBody(k.envelope, it.envelope)", New: ""}},
		Tests: inboxOn("TestEnvelope$/^SQLite$"),
	},
	{
		Name:  "topic, key and type of two messages of a batch are not compared",
		Edits: []Edit{{In: "inbox.(*Inbox).finishDuplicate", Old: "|| !sameBody(it.envelope, first.envelope)", New: ""}},
		Tests: inboxOn("TestEnvelope$/^SQLite$"),
	},
	{
		Name:  "another message with a known number is not told",
		Edits: []Edit{{In: "inbox.(*pass).turn", Old: "seq <= at.seq && at.recent.other(seq, it.m.ID)", New: "seq < 0 && at.recent.other(seq, it.m.ID)"}},
		Tests: inboxOn("TestReusedSeq$/^SQLite$"),
	},
	{
		Name:  "a version that is too large to be true makes later ones stale",
		Edits: []Edit{{In: "inbox.(*pass).turn", Old: "seq-at.seq > p.in.cfg.MaxJump", New: "seq-at.seq < 0"}},
		Tests: inboxOn("TestMaxJump$/^SQLite$"),
	},
	{
		Name:  "a key begins with a number that is too large to be true",
		Edits: []Edit{{In: "inbox.(*pass).turn", Old: "p.in.cfg.beginsAt(at) && seq > p.in.cfg.MaxJump", New: "p.in.cfg.beginsAt(at) && seq < 0"}},
		Tests: inboxOn("TestMaxJump$/^SQLite$"),
	},
	{
		Name:  "a key begins with a large message whose number is too large to be true",
		Edits: []Edit{{In: "inbox.(*Inbox).giveUpPosition", Old: "it.m.Seq > in.cfg.MaxJump", New: "it.m.Seq < 0"}},
		Tests: inboxOn("TestMaxJump$/^SQLite$"),
	},
	{
		Name:  "who has changed a key of an inbox is the process",
		Edits: []Edit{{In: "inbox.(*Inbox).audit", Old: "Who: who", New: "Who: in.cfg.Node"}},
		Tests: inboxOn("TestStartInTheMiddle$/^SQLite$"),
	},
	{
		Name:  "plain requests to all topics share their IDs",
		Edits: []Edit{{In: "receiver.(*receiver).decode", Old: "cmp.Or(m.Source, m.Topic)", New: "cmp.Or(m.Source)"}},
		Tests: []Killer{{Module: "integration", Package: "push", Test: "TestPlainPosts"}},
	},
	{
		Name:  "the attempts of an older program are forgotten",
		Edits: []Edit{{In: "letter.isAttempt", Old: "or seq = -1)", New: "or seq = -2)"}},
		Tests: []Killer{{Module: "integration", Test: "TestOldProgramBesideLetters$/^SQLite$"}},
	},
	{
		Name:  "an upgrade that was killed after it has dropped an index fails",
		Edits: []Edit{{In: "sqlstore.(migrating).execMySQL", Old: "case 1050, 1060, 1061, 1091:", New: "case 1050, 1060, 1061:"}},
		Tests: []Killer{{Module: "integration", Test: "TestLettersUpgradeKilled$/^MariaDB$"}},
	},
	{
		Name:  "a relay ends when it does not reach its database at the start",
		Edits: []Edit{{In: "isUnreached", Old: "errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError))", New: "errors.As(err, new(*net.DNSError))"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestWhatARelayWaitsFor"}},
	},
	{
		Name:  "each transaction of an inbox is a line of the log",
		Edits: []Edit{{In: "once.levelOf", Old: "return slog.LevelDebug\n}\nreturn slog.LevelInfo", New: "return slog.LevelInfo\n}\nreturn slog.LevelInfo"}},
		Tests: []Killer{{Module: ".", Test: "TestLogLevels"}},
	},
}
