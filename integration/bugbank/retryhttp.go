package bugbank

// retryhttpMutants are bugs of package retry/retryhttp.
var retryhttpMutants = []Mutant{
	{
		Name:  "an intent is closed before its outcome is definite",
		Edits: []Edit{{In: "retryhttp.(*call).run", Old: "if settles(resp) {", New: "if settles(resp) || resp != nil {"}},
		Tests: in("retry/retryhttp", "TestWhatIsDefinite"),
	},
	{
		Name:  "the time in which an intent is stored has no limit",
		Edits: []Edit{{In: "(*call).limited", Old: "total > 0", New: "total < 0"}},
		Tests: in("retry/retryhttp", "TestTotalLimitsTheJournal"),
	},
	{
		Name:  "an answer that broke off closes its intent",
		Edits: []Edit{{In: "(*taken).Read", Old: "err != nil &&", New: "false &&"}},
		Tests: in("retry/retryhttp", "TestBrokenAnswerLeavesItsIntentOpen"),
	},
	{
		Name:  "an intent stays open if its answer was not read to the end",
		Edits: []Edit{{In: "(*taken).Read", Old: "err != nil && err != io.EOF", New: "err != io.EOF"}},
		Tests: in("retry/retryhttp", "TestAnswerThatIsNotReadClosesItsIntent"),
	},
	{
		Name:  "an expired key is not held if its answer broke off",
		Edits: []Edit{{In: "retryhttp.(*call).run", Old: "body.broken.Load() && o != journal.ProofExpired", New: "body.broken.Load()"}},
		Tests: in("retry/retryhttp", "TestHeldIntentOfABrokenAnswer"),
	},
	{
		Name:  "a body that the journal has read is closed a second time",
		Edits: []Edit{{In: "retryhttp.(*Transport).roundTrip", Old: "if c == nil {", New: "if err != nil {"}},
		Tests: in("retry/retryhttp", "TestBodyIsClosedOnceWithAJournal"),
	},
	{
		Name:  "a refusal of the hedge closes the intent of a request that the server still executes",
		Edits: []Edit{{In: "retryhttp.(*race).arrived", Old: "r.intent.unsure()", New: ""}},
		Tests: in("retry/retryhttp", "TestHedgeThatIsRefusedLeavesItsIntentOpen"),
	},
	{
		Name:  "the redirect to a login page closes an intent",
		Edits: []Edit{{In: "settles", Old: "case resp.StatusCode < http.StatusMultipleChoices:", New: "case resp.StatusCode < http.StatusBadRequest:"}},
		Tests: in("retry/retryhttp", "TestALoginPageSettlesNothing"),
	},
	{
		Name:  "the login page closes the intent of what was redirected to it",
		Edits: []Edit{{In: "(*call).record", Old: "&& s.call.intent.Method == c.method():", New: ":"}},
		Tests: in("retry/retryhttp", "TestALoginPageSettlesNothing"),
	},
	{
		Name: "a redirect that is not followed keeps its intent",
		Edits: []Edit{{In: "retryhttp.(*call).run", Old: "o := c.proven()", New: `if moved(resp) {
	return resp, nil
}
o := c.proven()`}},
		Tests: in("retry/retryhttp", "TestRedirectsThatAreNotFollowed"),
	},
	{
		Name:  "a key that the caller does not know is journaled",
		Edits: []Edit{{In: "(*Transport).begin", Old: "c.keyed && !made &&", New: "c.keyed && (made || !made) &&"}},
		Tests: in("retry/retryhttp", "TestMadeKeysAreNotJournaled"),
	},
	{
		Name:  "a default shortens the time of an intent that is resumed",
		Edits: []Edit{{In: "(*call).resume", Old: "case c.t.Dialect.Retain > 0 || expires.IsZero():", New: "default:"}},
		Tests: in("retry/retryhttp", "TestTheTimeInTheJournal"),
	},
	{
		Name:  "Stripe's operation in flight is untouched",
		Edits: []Edit{{In: "retryhttp.classify", Old: "case again, p.code == codeInFlight", New: "case p.code == codeInFlight"}},
		Tests: in("retry/retryhttp", "TestWhatIsDefinite"),
	},
	{
		Name: "an intent is closed before its answer is taken",
		Edits: []Edit{{In: "retryhttp.(*call).run", Old: "body := &taken{", New: `_ = c.leave(o)
body := &taken{`}},
		Tests: []Killer{{Module: "integration", Package: "", Test: "TestJournalKill"}},
	},
	{
		Name:  "a key that has expired is sent again",
		Edits: []Edit{{In: "(*call).commence", Old: "case c.expired():", New: `case c.expired() && asked.Key == "":`}},
		Tests: in("retry/retryhttp", "TestExpiredIntent"),
	},
	{
		Name: "the body of an answer that was in time is cut",
		Edits: []Edit{{In: "(*sending).inTime", Old: `s.limit.Store(int64(lazy.Never))
return true`, New: "return true"}},
		Tests: in("retry/retryhttp", "TestSendingOfWhoDoesNotLook"),
	},
	{
		Name:  "an attempt that no goroutine has waited for is never late",
		Edits: []Edit{{In: "(*sending).look", Old: "if left > 0 && !waits {", New: "if !waits {"}},
		Tests: in("retry/retryhttp", "TestSendingIsAsMadeAtOnce"),
	},
	{
		Name:  "a connection that died is an attempt that failed",
		Edits: []Edit{{In: "(*call).free", Old: "!a.stale || c.stale == maxStale", New: "true || c.stale == maxStale"}},
		Tests: in("retry/retryhttp", "TestStaleConnectionIsNoAttempt"),
	},
	{
		Name:  "what was answered in part is taken for a connection that died",
		Edits: []Edit{{In: "(*sending).stale", Old: "&& !w.answered.Load()", New: ""}},
		Tests: in("retry/retryhttp", "TestWhatIsNotStale"),
	},
	{
		Name:  "a shared connection that died is free for all of its requests",
		Edits: []Edit{{In: "(*call).free", Old: "w.http2.Load() && !w.idle.Load()", New: "w.http2.Load() && w.idle.Load()"}},
		Tests: in("retry/retryhttp", "TestSharedConnectionsAreNotFree"),
	},
	{
		Name:  "what the base has sent again is paid for",
		Edits: []Edit{{In: "(*call).countFree", Old: "c.unpaid++", New: "c.policy.Budget.Spend(retry.ClassUnknown)"}},
		Tests: in("retry/retryhttp/roundtrippertest", "TestHiddenGETIsFree"),
	},
	{
		Name:  "an answer is read to its length",
		Edits: []Edit{{In: "(*call).buffer", Old: "_, err = io.Copy(io.Discard, a.resp.Body)", New: "_ = a"}},
		Tests: in("retry/retryhttp", "TestRoundTripper$/^TrailersHTTP2$"),
	},
	{
		Name:  "a body that cannot be read is tried again",
		Edits: []Edit{{In: "retryhttp.(*call).send", Old: "why != nil", New: "why != nil && false"}},
		Tests: in("retry/retryhttp", "TestBodyThatFails"),
	},
	{
		Name:  "409 with Retry-After is final, whatever the key",
		Edits: []Edit{{In: "retryhttp.classify", Old: "(p.again || named)", New: "(p.again || named && after < 0)"}},
		Tests: in("retry/retryhttp", "TestConflictsThatAreAskedAgain"),
	},
	{
		Name:  "409 with Retry-After is asked again without a key",
		Edits: []Edit{{In: "retryhttp.classify", Old: "keyed && (p.again || named)", New: "p.again || named"}},
		Tests: in("retry/retryhttp", "TestConflictsThatAreAskedAgain"),
	},
	{
		Name:  "keys are never quoted",
		Edits: []Edit{{In: "(*Transport).keyOf", Old: "t.Dialect.Quoted ||", New: ""}},
		Tests: in("retry/retryhttp", "TestQuotedKeys"),
	},
	{
		Name:  "third parties learn how often we ask",
		Edits: []Edit{{In: "(*call).announces", Old: "c.t.Dialect.Announce || peers.has(c.host)", New: "true"}},
		Tests: in("retry/retryhttp", "TestAttemptsAreAnnouncedToPeers"),
	},
	{
		Name:  "a key that has expired in a pause is sent",
		Edits: []Edit{{In: "retryhttp.(*call).answer", Old: "case c.expired():", New: "case false:"}},
		Tests: in("retry/retryhttp", "TestKeyExpiresInThePause"),
	},
	{
		Name:  "a key lives longer by the time that the machine sleeps",
		Edits: []Edit{{In: "retryhttp.(*Transport).begin", Old: "c.since = c.since.Round(0)", New: ""}},
		Tests: in("retry/retryhttp", "TestKeysExpireByTheWallClock"),
	},
	{
		Name:  "409 with Retry-After: 0 is final",
		Edits: []Edit{{In: "retryhttp.classify", Old: "after, named = retryAfter(h, time.Now())", New: "after, named = retryAfter(h, time.Now()); named = after > 0"}},
		Tests: in("retry/retryhttp", "TestConflictsThatAreAskedAgain"),
	},
	{
		Name:  "the 421 of regions that do not agree is final",
		Edits: []Edit{{In: "retryhttp.classify", Old: "class = retry.ClassTransient", New: "class = retry.ClassFinal"}},
		Tests: in("retry/retryhttp", "TestMisdirectedIsAskedAgain"),
	},
	{
		Name:  "what came too early is not sent again without a key",
		Edits: []Edit{{In: "retryhttp.byStatus", Old: "retry.ClassTransient", New: "retry.ClassUnknown"}},
		Tests: in("retry/retryhttp", "TestRoundTripper$/^KeylessPOST425$"),
	},
	{
		Name:  "the body of an answer beside an error stays open",
		Edits: []Edit{{In: "retryhttp.(*call).send", Old: "err != nil && a.resp != nil && a.resp.Body != nil", New: "err != nil && a.resp != nil && a.resp.Body == nil"}},
		Tests: in("retry/retryhttp", "TestAnswersAgainstTheRules"),
	},
	{
		Name:  "a proxy that refuses is asked again",
		Edits: []Edit{{In: "(*answer).fail", Old: "refused(err)", New: "false"}},
		Tests: in("retry/retryhttp", "TestFinalCauses"),
	},
	{
		Name:  "what had no connection may have left",
		Edits: []Edit{{In: "(*sending).unsent", Old: "return w.conns.Load() == 0 ||", New: "return"}},
		Tests: in("retry/retryhttp", "TestNothingHasLeft"),
	},
	{
		Name:  "what had a connection has not left",
		Edits: []Edit{{In: "(*sending).unsent", Old: "return w.conns.Load() == 0 ||", New: "return w.conns.Load() >= 0 ||"}},
		Tests: in("retry/retryhttp", "TestNothingHasLeft"),
	},
	{
		Name:  "what has written its header has not left",
		Edits: []Edit{{In: "(*sending).unsent", Old: "netHTTP && !w.wrote.Load()", New: "netHTTP"}},
		Tests: in("retry/retryhttp", "TestDeadBeforeTheHeader"),
	},
	{
		Name:  "a call that is sent at most once is repeated because of its key",
		Edits: []Edit{{In: "(*Transport).begin", Old: "c.repeatable = !c.once && (", New: "c.repeatable = ("}},
		Tests: in("retry/retryhttp", "TestAtMostOnce"),
	},
	{
		Name:  "net/http can read the body of an attempt again",
		Edits: []Edit{{In: "retryhttp.(*call).request", Old: "r.Body, r.GetBody = body, nil //", New: "r.Body = body //"}},
		Tests: in("retry/retryhttp", "TestCallIsSentAtMostOnce"),
	},
	{
		Name:  "a request without a body that was reset over HTTP/2 counts as unseen",
		Edits: []Edit{{In: "(*sending).gotConn", Old: "case w.wrote.Load() && !s.call.repeatable:", New: "case s == nil:"}},
		Tests: in("retry/retryhttp", "TestCallIsSentAtMostOnce"),
	},
	{
		Name:  "a key without a line is sent, or left to net/http",
		Edits: []Edit{{In: "(*call).hide", Old: "ok && len(lines) == 0", New: "ok && len(lines) == 7"}},
		Tests: in("retry/retryhttp", "TestKeyWithoutALine"),
	},
	{
		Name:  "the request of an answer has the context of its attempt",
		Edits: []Edit{{In: "(*call).hand", Old: "handing{c.req.Context(), a.sending}", New: "handing{a.sending, a.sending}"}},
		Tests: in("retry/retryhttp", "TestRequestOfTheAnswer"),
	},
	{
		Name:  "a hook may change the key",
		Edits: []Edit{{In: "(*call).prepare", Old: "keys[i] != nil", New: "keys[i] == nil"}},
		Tests: in("retry/retryhttp", "TestBeforeAttempt"),
	},
	{
		Name:  "an event has the secrets of the URL",
		Edits: []Edit{{In: "(*call).tell", Old: `url.User, url.RawQuery, url.Fragment = nil, "", ""`, New: ""}},
		Tests: in("retry/retryhttp", "TestEventsOfACall"),
	},
}
