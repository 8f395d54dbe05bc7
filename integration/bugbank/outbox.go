package bugbank

// outboxMutants are bugs of package outbox.
var outboxMutants = []Mutant{
	{
		Name:  "a relay floods the log while the database is down",
		Edits: []Edit{{In: "outbox.(logObserver).Observe", Old: "if !ok {", New: "if !ok && omitted != nil {"}},
		Tests: []Killer{{Module: ".", Test: "TestAnOutageIsLoggedOnceAMinute"}},
	},
	{
		Name:  "an outage is over although something still fails",
		Edits: []Edit{{In: "outages.(*Log).Works", Old: "|| now.Sub(f.last) < calm", New: ""}},
		Tests: in("internal/base/outages", "TestTheEndOfAnOutage"),
	},
	{
		Name:  "the end of an outage of a topic is not logged",
		Edits: []Edit{{In: "outbox.(logObserver).Observe", Old: "subject = e.Message.Topic", New: "_ = e.Message.Topic"}},
		Tests: []Killer{{Module: ".", Test: "TestAnOutageIsLoggedOnceAMinute"}},
	},
	{
		Name:  "subjects that failed long ago take the places of new ones",
		Edits: []Edit{{In: "outages.(*Log).Fails", Old: "return now.Sub(f.last) >= every", New: "return now.Sub(f.last) < 0"}},
		Tests: in("internal/base/outages", "TestErrorsThatNeverRepeat"),
	},
	{
		Name:  "a line about an outage hides another",
		Edits: []Edit{{In: "outages.(*Log).Fails", Old: "old, known := f.errors[text]\n\tif", New: "text = \"\"\n\told, known := f.errors[text]\n\tif"}},
		Tests: in("internal/base/outages", "TestAnErrorDoesNotHideAnother"),
	},
	{
		Name:  "texts that never repeat fill the log",
		Edits: []Edit{{In: "outages.(*Log).Fails", Old: "len(f.errors) >= most {\n\t\t\ttext", New: "len(f.errors) > 1<<30 {\n\t\t\ttext"}},
		Tests: in("internal/base/outages", "TestErrorsThatNeverRepeat"),
	},
	{
		Name:  "a relay goes on with a connection that is closed for good",
		Edits: []Edit{{In: "endIfClosed", Old: "if IsClosed(err) {", New: "if IsClosed(err) && end == nil {"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestRelayNATSIsClosed", Hangs: true}},
	},
	{
		Name:  "a message does not name its operation",
		Edits: []Edit{{In: "outbox.(*Box).statements", Old: "by = op.ID", New: "by.Scope = op.ID.Scope"}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "the log of a relay does not name the key",
		Edits: []Edit{{In: "outbox.(*Relay).publishItems", Old: "it.message.Headers = m.Headers", New: "_ = m.Headers"}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "what is sent again stays among what was delivered",
		Edits: []Edit{{In: "outbox.(*Box).Resend", Old: `delete from once_outbox_sent where part = ? and id = ?`, New: `update once_outbox_sent set sent_at = NOW where part = ? and id = ?`}},
		Tests: console("TestActionsDoWhatTheirCommandsDo"),
	},
	{
		Name:  "what was erased is sent again",
		Edits: []Edit{{In: "outbox.(*Box).Resend", Old: " and (length(payload) > 0 or length(headers) > 0)", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestFollowCommands"}},
	},
	{
		Name:  "a page of topics leaves out the one that its bound has cut",
		Edits: []Edit{{In: "outbox.(*topicReader).cut", Old: "last = max(last, name)", New: "last = max(last, r.until)"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestTopicsUpTo"}},
	},
	{
		Name:  "a page of blocked messages ends with the failures that were read",
		Edits: []Edit{{In: "outbox.(*Box).failedKeys", Old: "return keys[:len(keys)-1], true, err", New: "return keys[:len(keys)-1], false, err"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestBlockedMessagesAreListedByKey"}},
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
		Name:  "the ID of a message depends on the attempt",
		Edits: []Edit{{In: "outbox.IDFor", Old: `"message:" +`, New: `"message:" + strconv.Itoa(op.Attempt.Number) +`}},
		Tests: in("outbox", "TestIDForNeverChanges"),
	},
	{
		Name:  "two messages of an outbox with the same ID are one letter",
		Edits: []Edit{{In: "outbox.letterID", Old: "Topic: m.Topic, Key: m.Key, Seq: m.Seq", New: "Topic: m.Topic"}},
		Tests: deadletterOn("TestRelayLettersOfOneID$/^SQLite$"),
	},
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
	{
		Name:  "a publisher that ends its goroutine has delivered",
		Edits: []Edit{{In: "outbox.(*Relay).answer", Old: "errs := all(errors.New(\"Publish has called runtime.Goexit. Try: return an error instead\"))", New: "var errs []error"}},
		Tests: in("outbox", "TestPublisherEndsItsGoroutine"),
	},
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
		Tests: outboxTest("TestChecksRefuseTheWholeAdd"),
	},
	{
		Name:  "a message is stored outside of the transaction",
		Edits: []Edit{{In: "outbox.(*Box).Add", Old: "b.db.On(tx)", New: "b.db.Pool()"}},
		Tests: outboxOn("TestAddCommits$/^pgxstore"),
	},
	{
		Name:  "an encrypted payload opens in another message",
		Edits: []Edit{{In: "outbox.label", Old: `m.ID + "\x00" +`, New: ""}},
		Tests: outboxTest("TestSealedTextOpensOnlyInItsRow"),
	},
	{
		Name:  "a message that was delivered meanwhile counts as skipped",
		Edits: []Edit{{In: "outbox.(*Box).Skip", Old: "n == 0", New: "n < 0"}},
		Tests: outboxOn("TestSkipMeetsADelivery$/^pgxstore"),
	},
	{
		Name:  "a skipped message stays stopped",
		Edits: []Edit{{In: "outbox.(*Box).Skip", Old: "update once_outbox_failed set next_at = NOW where part = ? and id = ?", New: "update once_outbox_failed set next_at = NOW where part = ? and id = ? and next_at is not null"}},
		Tests: outboxOn("TestSkipLeavesAMarker$/^SQLite$"),
	},
	{
		Name:  "relays are not told that messages were added",
		Edits: []Edit{{In: "outbox.(*Box).note", Old: "b.added.Store(elapsed())", New: "b.added.Store(0)"}},
		Tests: outboxTest("TestAddedParts"),
	},
	{
		Name:  "what an operator does is not audited",
		Edits: []Edit{{In: "outbox.(*Box).audit", Old: `b.who == ""`, New: `b.who != ""`}},
		Tests: outboxOn("TestOperatorsAreAudited$/^SQLite$"),
	},
	{
		Name:  "forgetting a key erases those of its topic",
		Edits: []Edit{{In: "outbox.(*Box).Forget", Old: "where part in (?, ?) and topic = ? and KEY = ? and (length(payload)", New: "where part not in (? + 1000, ? + 1000) and topic = ? and KEY <> substr(?, 999) and (length(payload)"}},
		Tests: outboxOn("TestForgetErasesDeliveredPayloads$/^SQLite$"),
	},
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
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestWakeAfterACommit"}},
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
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestPagesUntilNothingWaits"}},
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
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestOutageIsManyFailures"}},
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
		Tests: []Killer{{Module: ".", Package: "outbox", Test: "TestWakeAfterACommit"}},
	},
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
		Name:  "a relay deletes what it should archive",
		Edits: []Edit{{In: "(*Relay).sweepSome", Old: "r.archive != nil", New: "r.archive != nil && r.keep == 0"}},
		Tests: outboxOn("TestRelayArchives$/^SQLite$"),
	},
	{
		Name:  "kept messages come faster than they are swept",
		Edits: []Edit{{In: "(*Relay).sweepSome", Old: "n >= sweepBatch", New: "n > sweepBatch"}},
		Tests: outboxTest("TestSweepKeepsUp"),
	},
	{
		Name:  "a pause of a topic that does not exist is no news",
		Edits: []Edit{{In: "(*Box).Known", Old: "known = true", New: "_ = known"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestOutboxCommands"}},
	},
	{
		Name:  "a message behind a failing one of its key counts as ready",
		Edits: []Edit{{In: "(*topicReader).readHeads", Old: "f.id < o.id", New: "f.id > o.id"}},
		Tests: outboxOn("TestTopicsShowTheirOldestMessage$/^SQLite$"),
	},
	{
		Name:  "a topic that is held back counts as ready",
		Edits: []Edit{{In: "outbox.readTopics", Old: "t.Ready = time.Time{}", New: "_ = t.Ready"}},
		Tests: outboxOn("TestTopicsShowTheirOldestMessage$/^SQLite$"),
	},
	{
		Name:  "what a dead relay has told is believed",
		Edits: []Edit{{In: "(*topicReader).readWaits", Old: "n.expires > NOW", New: "n.expires <> NOW"}},
		Tests: outboxOn("TestRelayTellsOfTopics$/^SQLite$"),
	},
	{
		Name:  "a relay does not tell that a destination does not answer",
		Edits: []Edit{{In: "(*board).waits", Old: "n.reason, n.since = WaitHanging, first[t]", New: "n.since = first[t]"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestRelayTellsOfTopics$/^SQLite$", Hangs: true}},
	},
	{
		Name:  "a relay does not tell that a destination is back",
		Edits: []Edit{{In: "(*waitWriter).write", Old: "over = append(over, topic)", New: "_ = topic"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestRelayTellsOfTopics$/^SQLite$", Hangs: true}},
	},
	{
		Name:  "a publisher does not get the context of its span",
		Edits: []Edit{{In: "outbox.(*Relay).traced", Old: "return r.cfg.Tracer.OutboxSpan(ctx, messages)", New: "_, end = r.cfg.Tracer.OutboxSpan(ctx, messages)\n\treturn ctx, end"}},
		Tests: onceotel("TestSpansOfMessagesReachHandlerAndPublisher"),
	},
	{
		Name:  "the span of a publisher that panics does not end",
		Edits: []Edit{{In: "outbox.(*Relay).answer", Old: "end(errs)\n", New: "if told := recover(); told == nil && len(errs) == 0 {\n\t\t\t\tend(errs)\n\t\t\t}\n"}},
		Tests: onceotel("TestSpansOfMessagesReachHandlerAndPublisher"),
	},
}
