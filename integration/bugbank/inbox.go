package bugbank

// inboxMutants are bugs of package inbox.
var inboxMutants = []Mutant{
	{
		Name:  "the event of a dead letter does not name the letter",
		Edits: []Edit{{In: "inbox.(*Inbox).bury", Old: "it.letter = l.UID", New: "it.letter = l.EventID"}},
		Tests: []Killer{{Module: "integration", Package: "inbox", Test: "TestFailuresAreRetriedThenGivenUp"}},
	},
	{
		Name:  "Run waits for missing tables",
		Edits: []Edit{{In: "inbox.(*Inbox).checkTables", Old: "case err == nil || ctx.Err() != nil:", New: "case true:"}},
		Tests: inboxOn("TestRunNeedsTables$/^SQLite$"),
	},
	{
		Name: "messages wait for the sweep",
		Edits: []Edit{
			{In: "inbox.(*Inbox).Run", Old: "errands.working.Go(func() { in.sweepAgain(ctx) })", New: ""},
			{In: "inbox.(*Inbox).Run", Old: "told, e = in.tellGaps(ctx, told)", New: "told, e = in.tellGaps(ctx, told); _ = in.Sweep(ctx)"},
		},
		Tests: inboxOn("TestASweepThatWaitsDelaysNoMessage"),
	},
	{
		Name:  "the log of a consumer does not name the key",
		Edits: []Edit{{In: "inbox.(logObserver).Observe", Old: `hash := m.KeyHash(); hash != ""`, New: `hash := m.KeyHash(); hash == ""`}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "a message that is there and is tried is shown as missing",
		Edits: []Edit{{In: "inbox.GapsUpTo", Old: "there == 0", New: "there >= 0"}},
		Tests: console("TestInboxPages"),
	},
	{
		Name:  "two messages of two keys with the same ID are one letter",
		Edits: []Edit{{In: "inbox.(*Inbox).letterID", Old: "Topic: m.Topic, Key: m.Key, Seq: m.Seq", New: "Topic: m.Topic"}},
		Tests: inboxOn("TestKeysShareAnID$/^SQLite$"),
	},
	{
		Name:  "a message is acknowledged because another one is the dead letter of its place",
		Edits: []Edit{{In: "inbox.(*pass).blocked", Old: `case uid != "" || err != nil:`, New: `case uid != "" || err == nil:`}},
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
		Tests: inboxOn("TestSameIDWithAnotherTopicIsKept$/^SQLite$"),
	},
	{
		Name:  "topic, key and type of two messages of a batch are not compared",
		Edits: []Edit{{In: "inbox.(*Inbox).finishDuplicate", Old: "|| !sameBody(it.envelope, first.envelope)", New: ""}},
		Tests: inboxOn("TestSameIDWithAnotherTopicIsKept$/^SQLite$"),
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
		Name:  "a message is acknowledged although its transaction has failed",
		Edits: []Edit{{In: "inbox.(*Inbox).fail", Old: "it.result.Err = err", New: "it.result.Outcome = Applied"}},
		Tests: inboxOn("TestEveryPointFails$/^SQLite$/^order_0_batch_1$"),
	},
	{
		Name:  "an ID is forgotten earlier than a message may be delivered again",
		Edits: []Edit{{In: "inbox.(*Config).checkRetain", Old: "d < c.Redelivery", New: "d < 0"}},
		Tests: inboxTest("TestConfigIsChecked"),
	},
	{
		Name:  "the ID of a dead letter is forgotten",
		Edits: []Edit{{In: "inbox.sweep", Old: "and processed_at <= AGO(?) order by processed_at limit ?)`", New: "and coalesce(processed_at, received_at) <= AGO(?) order by processed_at limit ?)`"}},
		Tests: inboxOn("TestRetentionOfAnID$/^SQLite$"),
	},
	{
		Name:  "the retention of a source is that of all others",
		Edits: []Edit{{In: "inbox.(*Config).retain", Old: "ok := c.RetainOf[source]; ok", New: "ok := c.RetainOf[source]; ok && d < c.Retain"}},
		Tests: inboxOn("TestRetentionOfAnID$/^SQLite$"),
	},
	{
		Name:  "a batch hides the failure of a message",
		Edits: []Edit{{In: "inbox.(*Inbox).finish", Old: "case it.err != nil:", New: "case it.err != nil && it.drains:"}},
		Tests: inboxOn("TestPoisonInBatch$/^SQLite$"),
	},
	{
		Name:  "a later message of a key whose message has failed is applied",
		Edits: []Edit{{In: "inbox.(*pass).apply", Old: "p.failed[s] = true", New: ""}},
		Tests: inboxOn("TestPoisonInBatch$/^SQLite$"),
	},
	{
		Name:  "the ID of a message that failed in a batch stays",
		Edits: []Edit{{In: "inbox.(*pass).run", Old: "if it.err != nil {", New: "if it.err != nil && it.behind {"}},
		Tests: inboxOn("TestPoisonInBatch$/^SQLite$"),
	},
	{
		Name:  "bodies are not compared",
		Edits: []Edit{{In: "inbox.sameBody", Old: "bytes.Equal(a, b)", New: "len(a) == len(b)"}},
		Tests: inboxOn("TestMessagesAreAppliedOnce$/^SQLite$"),
	},
	{
		Name:  "a parked message is not stored",
		Edits: []Edit{{In: "inbox.(*pass).park", Old: "if err := p.r.Append(ctx, s); err != nil {", New: `if err := ctx.Err(); err != nil || s.SQL == "" {`}},
		Tests: inboxOn("TestInOrder$/^SQLite$"),
	},
	{
		Name:  "a first message whose handler takes too long does not begin its key",
		Edits: []Edit{{In: "inbox.(*Inbox).begin", Old: "in.cfg.beginsAt(at)", New: "in.cfg.beginsAt(at) && it.m.Seq > 1"}},
		Tests: inboxOn("TestKeyBeginsWithAnInterruptedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "a key whose message 1 has failed has not begun",
		Edits: []Edit{{In: "inbox.(*position).begun", Old: " || len(p.recent) > 0", New: ""}},
		Tests: inboxOn("TestKeyBeginsWithAFailedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "a key that begins with message 1 is not stored",
		Edits: []Edit{{In: "inbox.(*position).stored", Old: "len(p.recent) > 0", New: "false"}},
		Tests: inboxOn("TestKeyBeginsWithAFailedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "the beginning of a key is rolled back with the failed handler",
		Edits: []Edit{{In: "inbox.(*pass).call", Old: "case !p.separately && !it.begins:", New: "case !p.separately:"}},
		Tests: inboxOn("TestKeyBeginsWithAFailedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "a first message whose attempt does not count does not begin its key",
		Edits: []Edit{{In: "inbox.(*Inbox).HandleBatch", Old: "defer in.keepFirsts(ctx, items)", New: ""}},
		Tests: inboxOn("TestKeyBeginsWithAnInterruptedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "a later message begins a key whose first message is not stored yet",
		Edits: []Edit{{In: "inbox.(*pass).turn", Old: "p.in.firsts.of(at.stream, seq)", New: "seq"}},
		Tests: inboxOn("TestKeyBeginsWithAnInterruptedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "the beginning of a key is forgotten although it could not be stored",
		Edits: []Edit{{In: "inbox.(*Inbox).keepFirsts", Old: "err == nil {\n\t\tin.firsts", New: "err == nil || list != nil {\n\t\tin.firsts"}},
		Tests: inboxOn("TestKeyBeginsWithAnInterruptedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "the beginning of a key is not stored because the caller has ended",
		Edits: []Edit{{In: "inbox.(*Inbox).keepFirsts", Old: "context.WithoutCancel(ctx)", New: "ctx"}},
		Tests: inboxOn("TestKeyBeginsWithAnInterruptedFirstMessage$/^SQLite$"),
	},
	{
		Name:  "a later message of the batch begins the key of a message that is too large",
		Edits: []Edit{{In: "inbox.(*firsts).arrive", Old: "it.m.Seq > maxJump", New: "it.m.Seq > maxJump || len(it.m.Payload) > 100"}},
		Tests: inboxOn("TestKeyBeginsWithATooLargeMessage$/^SQLite$"),
	},
	{
		Name:  "StartAt with Seq 1 changes nothing",
		Edits: []Edit{{In: "inbox.(*Inbox).StartAt", Old: "at.seq == seq-1 && at.begun()", New: "at.seq == seq-1"}},
		Tests: inboxOn("TestStartAtOne$/^SQLite$"),
	},
	{
		Name:  "a message that was too large is not applied when it is sent again",
		Edits: []Edit{{In: "inbox.(*Inbox).replaceable", Old: "class == classTooLarge && same", New: "class == classTooLarge && !same"}},
		Tests: inboxOn("TestTooLargeIsSentAgain$/^SQLite$"),
	},
	{
		Name:  "a message that was too large blocks its key although it is sent again",
		Edits: []Edit{{In: "inbox.(*pass).blocked", Old: "class == classTooLarge", New: "class == classTooLarge+uid"}},
		Tests: inboxOn("TestTooLargeIsSentAgain$/^SQLite$"),
	},
	{
		Name:  "a malformed message is not applied when it is sent again",
		Edits: []Edit{{In: "inbox.(*Inbox).replaceable", Old: "class == classMalformed ||", New: ""}},
		Tests: inboxOn("TestMalformedIsSentAgain$/^SQLite$"),
	},
	{
		Name:  "the letter of a message that is sent again stays",
		Edits: []Edit{{In: "inbox.(*Inbox).resolveReplaced", Old: "ok, err := letter.Replace(ctx, r, in.db.Dialect(), it.replaces, letter.StateApplied)", New: "ok, err := true, error(nil)"}},
		Tests: inboxOn("TestMalformedIsSentAgain$/^SQLite$"),
	},
	{
		Name:  "the payload of a message that was sent again and has failed is lost",
		Edits: []Edit{{In: "inbox.(*Inbox).buryReplaced", Old: `it.replaces == ""`, New: "in != nil"}},
		Tests: inboxOn("TestReplacementFails$/^SQLite$"),
	},
	{
		Name:  "an encrypted letter without its payload is redriven",
		Edits: []Edit{{In: "inbox.(*Inbox).itemOf", Old: "err = errNotKept", New: "_ = errNotKept"}},
		Tests: inboxOn("TestTooLargeIsSentAgain$/^SQLite$"),
	},
	{
		Name:  "the result of Do is stored as plain text",
		Edits: []Edit{{In: "inbox.(*Inbox).sealResult", Old: "in.cfg.Encrypter == nil", New: "m != nil"}},
		Tests: inboxOn("TestResultsAreEncrypted$/^SQLite$"),
	},
	{
		Name: "the result of another message can be decrypted",
		Edits: []Edit{
			{In: "inbox.(*Inbox).sealResult", Old: `in.label(m)+"result"`, New: `"result"`},
			{In: "inbox.(*Inbox).openResult", Old: `in.label(m)+"result"`, New: `"result"`},
		},
		Tests: inboxOn("TestResultsAreEncrypted$/^SQLite$"),
	},
	{
		Name:  "a plain result of an earlier version cannot be read",
		Edits: []Edit{{In: "inbox.(*Inbox).openResult", Old: "stored[0] != sealedResult", New: "false"}},
		Tests: inboxOn("TestResultsAreEncrypted$/^SQLite$"),
	},
	{
		Name:  "a malformed letter is redriven",
		Edits: []Edit{{In: "inbox.(*Inbox).itemOf", Old: "case classMalformed:", New: `case "":`}},
		Tests: inboxOn("TestMalformedIsNotRedriven$/^SQLite$"),
	},
	{
		Name:  "the head of a key is overtaken after it has become a dead letter",
		Edits: []Edit{{In: "inbox.(*Inbox).giveUpPosition", Old: "at.dead = true", New: "at.seq = it.m.Seq"}},
		Tests: inboxOn("TestFailingHead$/^SQLite$"),
	},
	{
		Name:  "a failing message is skipped",
		Edits: []Edit{{In: "inbox.(*Inbox).Skip", Old: "f.Attempts > 0", New: "f.Attempts < 0"}},
		Tests: inboxOn("TestFailingIsNotMissing$/^SQLite$"),
	},
	{
		Name:  "a failing message raises the alarm of a missing one",
		Edits: []Edit{{In: "inbox.(*Inbox).alarming", Old: "(p.dead or not exists (", New: "(p.dead or p.parked > 0 or not exists ("}},
		Tests: inboxOn("TestFailingIsNotMissing$/^SQLite$"),
	},
	{
		Name:  "a gap is stepped over",
		Edits: []Edit{{In: "inbox.(*pass).turn", Old: "case seq == at.seq+1 && (!at.dead", New: "case seq > at.seq && (!at.dead"}},
		Tests: inboxOn("TestInOrder$/^SQLite$"),
	},
	{
		Name:  "a marker does not take the place of the message that was skipped",
		Edits: []Edit{{In: "inbox.(*pass).apply", Old: "if it.ordered {\n\t\treturn p.move(ctx, at, it)", New: "if it.ordered && !it.isMarker() {\n\t\treturn p.move(ctx, at, it)"}},
		Tests: inboxOn("TestInOrder$/^SQLite$"),
	},
	{
		Name:  "a position is read without its lock",
		Edits: []Edit{{In: "inbox.textsOf", Old: `stream + " FOR UPDATE"),`, New: `stream),`}},
		Tests: inboxOn("TestSameMessageAtOnce$/^pgxstore$"),
	},
	{
		Name:  "an ID that PostgreSQL has not inserted counts as new",
		Edits: []Edit{{In: "inbox.(*Inbox).addIDs", Old: "added < int64(n)", New: "added < 0"}},
		Tests: inboxOn("TestMessagesAreAppliedOnce$/^pgxstore$"),
	},
	{
		Name:  "the letter of a message is resolved although its handler has failed",
		Edits: []Edit{{In: "inbox.(*Inbox).applyLetter", Old: "if err := apply(); err != nil {", New: "if err := apply(); err != nil && it.ordered {"}},
		Tests: inboxOn("TestRedriveFails$/^SQLite$"),
	},
	{
		Name: "an attempt of a database that fails counts",
		Edits: []Edit{
			{In: "inbox.(*Inbox).blames", Old: "case once.CodeUnavailable, once.CodeConflict, once.CodeInFlight:", New: "case once.CodeInFlight:"},
			{In: "inbox.(*Inbox).blames", Old: "case store.KindRetry, store.KindUnavailable, store.KindLost, store.KindBusy:", New: "case store.KindRetry:"},
		},
		Tests: inboxOn("TestDatabaseFaultsAreNoAttempts$/^SQLite$"),
	},
	{
		Name:  "a result does not tell how long its transaction has waited",
		Edits: []Edit{{In: "inbox.(*Inbox).HandleBatch", Old: "results[i].Wait = it.wait", New: ""}},
		Tests: inboxOn("TestResultTellsTheWait"),
	},
	{
		Name:  "the body of a message counts as that of another one",
		Edits: []Edit{{In: "inbox.(*Inbox).tellSome", Old: "and b.event_id <> ? order", New: "and b.event_id >= ? order"}},
		Tests: inboxOn("TestSameBody$/^SQLite$"),
	},
	{
		Name:  "the body of a parked message is not noted",
		Edits: []Edit{{In: "inbox.(*Inbox).applyParked", Old: "it.outcome = Applied", New: ""}},
		Tests: inboxOn("TestSameBody$/^SQLite$"),
	},
	{
		Name:  "an early message is refused when many are parked",
		Edits: []Edit{{In: "inbox.(*pass).turn", Old: "return false, p.park(ctx, it, at)", New: "if seq-at.seq > 1000 {\nit.err = ErrTooFarAhead\nreturn false, nil\n}\nreturn false, p.park(ctx, it, at)"}},
		Tests: consumerTest("TestKafkaGaps"),
	},
	{
		Name:  "a handler that does not return is waited for",
		Edits: []Edit{{In: "inbox.(*Inbox).call", Old: "case <-over.C:", New: "case <-(chan int)(nil):"}},
		Tests: inboxOn("TestHandlerTimeout$/^SQLite$"),
	},
	{
		Name:  "a handler that returns because its time is over is no failure",
		Edits: []Edit{{In: "inbox.(*Inbox).call", Old: "err != nil && errors.Is(context.Cause(ctx), ErrHandlerTimeout)", New: "false"}},
		Tests: inboxOn("TestHandlerTimeout$/^SQLite$"),
	},
	{
		Name:  "a handler that hangs is called again beside itself",
		Edits: []Edit{{In: "inbox.(*Inbox).call", Old: "in.hanging.since(&m); hangs {", New: "in.hanging.since(&m); hangs && since.IsZero() {"}},
		Tests: inboxOn("TestHandlerTimeout$/^SQLite$"),
	},
	{
		Name:  "a handler that hangs stops a message of another key with the same ID",
		Edits: []Edit{{In: "inbox.hangingOf", Old: "m.Topic, m.Key}, m.Seq}", New: "\"\", \"\"}, 0}"}},
		Tests: inboxOn("TestHangingHandlerStopsOnlyItsMessage$/^SQLite$"),
	},
	{
		Name:  "messages before one that hangs are not applied",
		Edits: []Edit{{In: "inbox.(*Inbox).hung", Old: "in.handle(ctx, before, fn)", New: "in.fail(before, errUntried)"}},
		Tests: inboxOn("TestHandlerTimeout$/^SQLite$"),
	},
	{
		Name:  "parked messages that become due wait for handlers that take long",
		Edits: []Edit{{In: "inbox.(*Inbox).look", Old: "return full || more && started > 0, err", New: "e.working.Wait()\nreturn full || more && started > 0, err"}},
		Tests: inboxOn("TestParkedBesideSlow"),
	},
	{
		Name:  "keys that take long keep their places",
		Edits: []Edit{{In: "inbox.(*errands).give", Old: "<-place\nplace = e.slow\ndefault", New: "<-e.slow\ndefault"}},
		Tests: inboxOn("TestParkedBesideSlow"),
	},
	{
		Name: "letters of keys that take long hide those of others",
		Edits: []Edit{
			{In: "inbox.(*Inbox).look", Old: "except(taken)", New: "letter.Except{}"},
			{In: "inbox.(*Inbox).look", Old: "left.UpTo = e.lastLetter", New: ""},
		},
		Tests: inboxOn("TestRedriveBesideSlow"),
	},
	{
		Name:  "many letters that cannot be applied hide those behind them",
		Edits: []Edit{{In: "inbox.(*Inbox).look", Old: "left.UpTo = e.lastLetter", New: ""}},
		Tests: inboxOn("TestRedriveBehindMany$/^SQLite$"),
	},
	{
		Name:  "many keys that cannot be read hide those behind them",
		Edits: []Edit{{In: "inbox.(*Inbox).look", Old: "e.lastKey = s\n", New: "e.lastKey = stream{}\n"}},
		Tests: inboxOn("TestParkedBehindMany$/^SQLite$"),
	},
	{
		Name:  "a key that cannot be read is tried at each look",
		Edits: []Edit{{In: "inbox.(*errands).ended", Old: "time.Now().Add(pause(k.failures))", New: "time.Now()"}},
		Tests: inboxOn("TestParkedBesideUnreadable"),
	},
	{
		Name:  "a handler that ends its goroutine is waited for",
		Edits: []Edit{{In: "inbox.(*Inbox).call", Old: "err := errGoexit", New: "var err error"}},
		Tests: inboxOn("TestHandlerGoexit$/^SQLite$"),
	},
	{
		Name:  "a key that a person has begin later is not audited",
		Edits: []Edit{{In: "inbox.(*Inbox).StartAt", Old: `return in.audit(ctx, r, "inbox start-at", s, who, reason, detail)`, New: "_ = detail\nreturn nil"}},
		Tests: inboxOn("TestStartInTheMiddle$/^SQLite$"),
	},
	{
		Name:  "a message counts as applied although the answer to its COMMIT is lost",
		Edits: []Edit{{In: "inbox.(*Inbox).handle", Old: "case err == nil:", New: "case err == nil || store.KindOf(err) == store.KindLost:"}},
		Tests: inboxOn("TestEveryWriteIsCut$/^before_write,_order_0_batch_20$/^pgxstore$"),
	},
	{
		Name: "parked messages stay in memory until the last of their key is applied",
		Edits: []Edit{
			{In: "inbox.(*Inbox).drain", Old: "for range drainAtOnce {", New: "var held []*item\ndefer func() { clear(held) }()\nfor range drainAtOnce {"},
			{In: "inbox.(*Inbox).drain", Old: "in.tellOutcome(ctx, it)", New: "held = append(held, it)\nin.tellOutcome(ctx, it)"},
		},
		Tests: inboxOn("TestParkedMemory$/^SQLite$"),
	},
	{
		Name:  "of the messages of a batch that are given up, only the first becomes a dead letter",
		Edits: []Edit{{In: "inbox.(*Inbox).failedAll", Old: "if !f.dead {", New: "if !f.dead || i > 0 {"}},
		Tests: inboxOn("TestPoisonStorm$/^order_0$/^SQLite$"),
	},
	{
		Name:  "an inbox does not follow a sender that was renumbered",
		Edits: []Edit{{In: "inbox.(*pass).starts", Old: "if at.dead {", New: "if at.dead || it.ordered {"}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "any message behind the number begins its key",
		Edits: []Edit{{In: "inbox.(*Inbox).follows", Old: "and seq = ? and not exists", New: "and seq <= ? and not exists"}},
		Tests: restored("TestARenumberedInboxKeepsTheOrder"),
	},
	{
		Name:  "the first message after a renumbering never becomes a dead letter",
		Edits: []Edit{{In: "inbox.(*Inbox).giveUpPosition", Old: "if follows {", New: "if follows && at.seq < 0 {"}},
		Tests: inboxOn("TestMessageAfterARenumberingIsGivenUp$/^SQLite$"),
	},
	{
		Name:  "a message that is not the next one any more is called too large",
		Edits: []Edit{{In: "inbox.(*Inbox).giveUpPosition", Old: "class != classTooLarge", New: "class == \"\""}},
		Tests: inboxOn("TestAttemptThatIsNotStoredIsTold$/^SQLite$"),
	},
	{
		Name:  "an attempt that could not be stored is not told",
		Edits: []Edit{{In: "inbox.(*Inbox).failedAll", Old: "in.tell(ctx, Event{Type: EventFailed, Message: it.m, From: it.from, To: it.from, Err: it.result.Err})", New: ""}},
		Tests: inboxOn("TestAttemptThatIsNotStoredIsTold$/^SQLite$"),
	},
	{
		Name:  "a key passes over an earlier message that is parked",
		Edits: []Edit{{In: "inbox.(*Inbox).follows", Old: "and KEY = ? and seq < ?)", New: "and KEY = ? and seq < ? - 1000000)"}},
		Tests: restored("TestARenumberedInboxKeepsTheOrder"),
	},
	{
		Name:  "keys that wait for a renumbered sender do not go on",
		Edits: []Edit{{In: "inbox.(*Inbox).waitingAt", Old: "and k.seq = ? and p.seq", New: "and k.seq = ? + 1 and p.seq"}},
		Tests: restored("TestARenumberedInboxKeepsTheOrder"),
	},
	{
		Name:  "a handler does not get the context of its span",
		Edits: []Edit{{In: "inbox.(*Inbox).traced", Old: "ctx, end := in.cfg.Tracer.InboxSpan", New: "_, end := in.cfg.Tracer.InboxSpan"}},
		Tests: onceotel("TestSpansOfMessagesReachHandlerAndPublisher"),
	},
	{
		Name:  "a duplicate whose result is not there yet has none",
		Edits: []Edit{{In: "inbox.Do", Old: "if k == nil {", New: "if k == nil {\nk = new(known)\n}\nif false {"}},
		Tests: inboxOn("TestDoReturnsTheFirstResult"),
	},
}
