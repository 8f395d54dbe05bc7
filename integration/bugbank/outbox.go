package bugbank

// outboxTest is a test of package outbox itself, outboxOn one on databases.
func outboxTest(test string) []Killer {
	return []Killer{{Module: ".", Package: "outbox", Test: test}}
}

func outboxOn(test string) []Killer {
	return []Killer{{Module: "integration", Package: "outbox", Test: test}}
}

// outboxMutants are bugs of adding messages, and of what operators do with them.
var outboxMutants = []Mutant{
	{
		Name: "a sequence number is not drawn under the lock of its key",
		Edits: []Edit{{
			In: "outbox.insertOf", Old: "$10, $11, $12, statement_timestamp(), seq from stream",
			New: "$10, $11, $12, statement_timestamp(), (select coalesce(max(o.seq), 0) + 1 from once_outbox o where o.topic = $2 and o.key = $3) from stream",
		}},
		Tests: outboxOn("TestSequenceHasNoGaps$/^pgxstore"),
	},
	{
		Name:  "the part of a message is another one than before",
		Edits: []Edit{{In: "outbox.partOf", Old: "%queuesOfTopic", New: "%(2*queuesOfTopic)"}},
		Tests: outboxTest("TestPartsNeverChange"),
	},
	{
		Name:  "the low bits of a hash choose the part",
		Edits: []Edit{{In: "outbox.partOf", Old: "mixed(hash(topic, \"\\x00\", key))", New: "hash(topic, \"\\x00\", key)"}},
		Tests: outboxTest("TestPartsOfOneKey"),
	},
	{
		Name:  "messages of one Add are stored as they come",
		Edits: []Edit{{In: "outbox.(*Box).statements", Old: "sqlplane.InLockOrder(list)", New: "list"}},
		Tests: outboxOn("TestOneAddNeverDeadlocks$/^MariaDB"),
	},
	{
		Name:  "rows of different keys have the same name",
		Edits: []Edit{{In: "outbox.(*Box).append", Old: `"\x00"`, New: `"/"`}},
		Tests: outboxTest("TestLocksDiffer"),
	},
	{
		Name:  "an invalid message is left out, and the others are added",
		Edits: []Edit{{In: "outbox.(*Box).statements", Old: `return nil, fmt.Errorf("outbox: message %d of %d: %w", i+1, len(messages), err)`, New: "_ = i\ncontinue"}},
		Tests: outboxTest("TestChecks"),
	},
	{
		Name:  "a payload that the caller changes after Add is stored changed",
		Edits: []Edit{{In: "seal.Message", Old: "append([]byte{}, payload...)", New: "payload[:len(payload):len(payload)]"}},
		Tests: outboxOn("TestAddFreezes$/^pgxstore"),
	},
	{
		Name:  "a message is stored outside of the transaction",
		Edits: []Edit{{In: "outbox.(*Box).Add", Old: "b.db.On(tx)", New: "b.db.Pool()"}},
		Tests: outboxOn("TestAddCommits$/^pgxstore"),
	},
	{
		Name:  "an encrypted payload opens in another message",
		Edits: []Edit{{In: "outbox.label", Old: `m.ID + "\x00" +`, New: ""}},
		Tests: outboxTest("TestSealed"),
	},
	{
		Name:  "a message that was delivered meanwhile counts as skipped",
		Edits: []Edit{{In: "outbox.(*Box).Skip", Old: "n == 0", New: "n < 0"}},
		Tests: outboxOn("TestSkipMeetsADelivery$/^pgxstore"),
	},
	{
		Name:  "a skipped message stays stopped",
		Edits: []Edit{{In: "outbox.(*Box).Skip", Old: "update once_outbox_failed set next_at = NOW where part = ? and id = ?", New: "update once_outbox_failed set next_at = NOW where part = ? and id = ? and next_at is not null"}},
		Tests: outboxOn("TestSkip$/^SQLite$"),
	},
	{
		Name:  "relays are not told that messages were added",
		Edits: []Edit{{In: "outbox.(*Box).note", Old: "b.added.Store(elapsed())", New: "b.added.Store(0)"}},
		Tests: outboxTest("TestAddedParts"),
	},
	{
		Name:  "a header of HTTP itself can be added",
		Edits: []Edit{{In: "message.IsOfDelivery", Old: `strings.HasPrefix(name, "ce-") ||`, New: ""}},
		Tests: outboxTest("TestChecks"),
	},
	{
		Name:  "what an operator does is not audited",
		Edits: []Edit{{In: "outbox.(*Box).audit", Old: `b.who == ""`, New: `b.who != ""`}},
		Tests: outboxOn("TestOperatorsAreAudited$/^SQLite$"),
	},
	{
		Name:  "forgetting a key erases those of its topic",
		Edits: []Edit{{In: "outbox.(*Box).Forget", Old: "where part in (?, ?) and topic = ? and KEY = ? and (length(payload)", New: "where part not in (? + 1000, ? + 1000) and topic = ? and KEY <> substr(?, 999) and (length(payload)"}},
		Tests: outboxOn("TestForget$/^SQLite$"),
	},
}
