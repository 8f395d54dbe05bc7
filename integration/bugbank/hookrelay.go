package bugbank

// onHookrelay is a test on databases.
func onHookrelay(test string) []Killer {
	return []Killer{{Module: "integration", Package: "hookrelay", Test: test}}
}

// hookrelayMutants deliver webhooks twice or never, or let an endpoint delay others.
var hookrelayMutants = []Mutant{
	{
		Name:  "a claim that began before an outcome was written down posts it again",
		Edits: []Edit{{In: "webhook.(*board).settled", Old: "!t.claimed {", New: "t.id != 0 {"}},
		Tests: in("webhook", "TestSettledDuringClaim"),
	},
	{
		Name:  "a wake during a claim of an endpoint is lost",
		Edits: []Edit{{In: "webhook.(*board).claimed", Old: "t.wakes != a.wakes", New: "t.wakes < a.wakes"}},
		Tests: in("webhook", "TestWakeDuringClaim"),
	},
	{
		Name:  "endpoints that wait while all places are taken are not looked at when one is given back",
		Edits: []Edit{{In: "webhook.(*board).isSlow", Old: "notify(b.woken)", New: ""}},
		Tests: in("webhook", "TestPlaceGivenBack"),
	},
	{
		Name:  "a slow webhook keeps its place",
		Edits: []Edit{{In: "webhook.(*board).isSlow", Old: "d.slow || d.over", New: "!d.slow || d.over"}},
		Tests: in("webhook", "TestPlaces"),
	},
	{
		Name:  "endpoints in trouble take all places",
		Edits: []Edit{{In: "webhook.(*board).hasPlace", Old: "quarter - standing", New: "quarter"}},
		Tests: in("webhook", "TestPlaces"),
	},
	{
		Name:  "an endpoint that was never tried gets as many deliveries as a healthy one",
		Edits: []Edit{{In: "webhook.(*board).put", Old: "= *h, 1, false", New: "= *h, s.concurrency, false"}},
		Tests: in("webhook", "TestBeginsWithOne"),
	},
	{
		Name:  "an endpoint that fails gets all that waits",
		Edits: []Edit{{In: "webhook.circuitPause", Old: "case n < 0:", New: "case n < 1000:"}},
		Tests: in("webhook", "TestWindow"),
	},
	{
		Name:  "headers of an endpoint replace its signature",
		Edits: []Edit{{In: "webhook.mayAdd", Old: `!strings.HasPrefix(name, "Webhook-")`, New: `name != "Webhook-"`}},
		Tests: in("webhook", "TestOwnHeaders"),
	},
	{
		Name:  "a relay that was stopped writes outcomes of parts that others hold",
		Edits: []Edit{{In: "webhook.(*Relay).settleArrays", Old: "change+still+", New: `change+"("+still+" or 1 = 1)"+`}},
		Tests: onHookrelay("TestFence$/^pgxstore/delivered"),
	},
	{
		Name:  "a relay that was stopped writes outcomes in a transaction",
		Edits: []Edit{{In: "webhook.(*Relay).settleIn", Old: "len(still) == 0", New: "still == nil"}, {In: "webhook.(*Relay).settleIn", Old: "if still[part] {", New: "if still[part] || part >= 0 {"}},
		Tests: onHookrelay("TestFence$/^SQLite$/delivered"),
	},
	{
		Name:  "an endpoint that is gone is not disabled",
		Edits: []Edit{{In: "webhook.(*Relay).noticeOf", Old: "http.StatusGone", New: "http.StatusTeapot"}},
		Tests: onHookrelay("TestDisabled$/^SQLite$"),
	},
	{
		Name:  "an ordered endpoint gets its events by the time at which they are due",
		Edits: []Edit{{In: "webhook.dueOf", Old: "order by event limit 1", New: "order by due_at limit 1"}},
		Tests: onHookrelay("TestOrdered$/^SQLite$"),
	},
	{
		Name:  "requests that a relay cannot make because it has no file left count against endpoints",
		Edits: []Edit{{In: "webhook.faultOf", Old: "case slices.ContainsFunc(oursAlways, is),", New: "case"}},
		Tests: onHookrelay("TestNoFiles"),
	},
	{
		Name:  "a missing name counts against an endpoint although none was reached",
		Edits: []Edit{{In: "webhook.(*target).isOurs", Old: "&& reached.After(t.doubt)", New: ""}},
		Tests: in("webhook", "TestEitherFailure"),
	},
	{
		Name:  "a missing name never counts against an endpoint",
		Edits: []Edit{{In: "webhook.(*target).isOurs", Old: "reached.After(t.doubt)", New: "reached.After(now)"}},
		Tests: in("webhook", "TestEitherFailure"),
	},
	{
		Name:  "an answer on an old connection says that names can be resolved",
		Edits: []Edit{{In: "webhook.(*board).ended", Old: "d.answer.fresh && ", New: ""}},
		Tests: in("webhook", "TestEitherFailure"),
	},
	{
		Name:  "while a secret is replaced a relay signs with the new one alone",
		Edits: []Edit{{In: "webhook.(*settings).signerAt", Old: "return s.both", New: "return s.signer"}},
		Tests: onHookrelay("TestRotatedWhileSending$/^SQLite$"),
	},
	{
		Name:  "an endpoint whose circuit is open counts as overdue",
		Edits: []Edit{{In: "dialect.DueEndpoints", Old: "s.circuit_until <= NOW", New: "1 = 1"}},
		Tests: onHookrelay("TestGauges$/^SQLite$"),
	},
	{
		Name:  "the fence is asked once for each row that is written down",
		Edits: []Edit{{In: "webhook.(*Relay).settleArrays", Old: `"x.part = any(array(" + locked + "))"`, New: `"d.part in (" + locked + ")"`}},
		Tests: onHookrelay("TestSettlePlans$/^50000,_stale_false$"),
	},
	{
		Name:  "a status that no database takes is kept",
		Edits: []Edit{{In: "webhook.(*request).send", Old: "resp.StatusCode > 999", New: "resp.StatusCode < 0"}},
		Tests: in("webhook", "TestOddStatus"),
	},
	{
		Name:  "an outcome that the database refuses keeps those of others waiting",
		Edits: []Edit{{In: "webhook.isRefused", Old: "err != nil", New: "err == nil"}},
		Tests: onHookrelay("TestRefusedOutcome$/^pgxstore$"),
	},
	{
		Name:  "endpoints that wait for room among slow webhooks wait for ever",
		Edits: []Edit{{In: "webhook.(*board).unpark", Old: "b.isHalfSlow()", New: "t.running >= 0"}},
		Tests: in("webhook", "TestAllAreAskedFor"),
	},
	{
		Name:  "an endpoint for which there was no place is not asked for again",
		Edits: []Edit{{In: "webhook.(*board).first", Old: "&& b.hasPlace(of, taken)", New: ""}, {In: "webhook.(*board).due", Old: "case t.idle():", New: "case t.idle(), !b.hasPlace(t.queued, taken):"}},
		Tests: in("webhook", "TestAllAreAskedFor"),
	},
	{
		Name:  "a slow webhook for which there was no room never gives its place back",
		Edits: []Edit{{In: "webhook.(*board).ended", Old: "other.over || b.move(other)", New: "other.over"}},
		Tests: in("webhook", "TestBytes"),
	},
	{
		Name:  "endpoints that were never tried take all places",
		Edits: []Edit{{In: "webhook.(*target).standing", Old: "case !t.known:", New: "case t.id < 0:"}},
		Tests: in("webhook", "TestLargeRequestsHang"),
	},
	{
		Name:  "an endpoint gets as many requests at once as its tenant asks for",
		Edits: []Edit{{In: "webhook.(*board).put", Old: "min(t.concurrency, maxConcurrency)", New: "t.concurrency"}},
		Tests: in("webhook", "TestNoEndpointTakesAll"),
	},
	{
		Name:  "an event that does not open keeps those behind it waiting",
		Edits: []Edit{{In: "webhook.(*claimer).beginOne", Old: `"update once_webhook_delivery set due_at = AGO(?) where due_at <= NOW"`, New: `"update once_webhook_delivery set due_at = AGO(?) where due_at > NOW"`}},
		Tests: onHookrelay("TestSealedEvent$/^SQLite$"),
	},
	{
		Name:  "a claim reads all that an endpoint has got while a transaction is open that may see it",
		Edits: []Edit{{In: "webhook.(*board).claimed", Old: "} else if a.read {", New: "} else if a.read && t.from.due < 0 {"}},
		Tests: onHookrelay("TestOldSnapshot$/^pgxstore"),
	},
	{
		Name:  "what becomes due before an endpoint's last delivery is never found",
		Edits: []Edit{{In: "webhook.(*board).found", Old: "at.isBefore(t.from, t.ordered)", New: "at.isBefore(bound{}, t.ordered)"}},
		Tests: onHookrelay("TestDueBefore$/^SQLite$"),
	},
	{
		Name:  "what was sent before an endpoint's last delivery, and has committed after it, waits for the finder",
		Edits: []Edit{{In: "webhook.(*target).wake", Old: "from.isBefore(t.from, t.ordered)", New: "from.isBefore(bound{}, t.ordered)"}},
		Tests: in("webhook", "TestBounds"),
	},
	{
		Name:  "an ordered endpoint overtakes an event that commits late",
		Edits: []Edit{{In: "webhook.(*board).ask", Old: "min(a.from.event, b.old)", New: "min(a.from.event, a.from.event+b.old)"}},
		Tests: in("webhook", "TestBounds"),
	},
	{
		Name:  "a failed request shows the path of its URL",
		Edits: []Edit{{In: "webhook.(*request).send", Old: "hostOf(err, r.URL)", New: "err"}},
		Tests: in("webhook", "TestErrorsShowTheHost"),
	},
	{
		Name:  "an endpoint that a person has enabled meanwhile stays disabled in a relay",
		Edits: []Edit{{In: "webhook.(*board).disable", Old: "true, health{}, -1", New: "true, health{}, t.version"}},
		Tests: in("webhook", "TestEnabledMeanwhile"),
	},
	{
		Name: "an outcome is written down before the request is made",
		Edits: []Edit{{In: "webhook.(*Relay).deliver", Old: "d.answer = r.traced(ctx, d, &q)", New: `d.answer.Status, d.answer.At = 200, time.Now()
	_ = r.settleRows(ctx, []*delivery{d}, r.rows(ctx, []*delivery{d}))
	d.answer = r.traced(ctx, d, &q)`}},
		Tests: onHookrelay("TestKilledAtEachWrite$/^pgxstore$"),
	},
	{
		Name: "an outcome and its attempt are two transactions",
		Edits: []Edit{{In: "webhook.(*Relay).settleRows", Old: `return r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) error {
	return r.settleIn(ctx, tx, list, rows, held)
})`, New: "return r.settleIn(ctx, r.db.Pool(), list, rows, held)"}},
		Tests: onHookrelay("TestKilledAtEachPoint$/^SQLite$"),
	},
	{
		Name:  "a relay that was stopped begins what it has claimed before",
		Edits: []Edit{{In: "webhook.(*Relay).begin", Old: "held, done := r.holder.Use([]int{d.target.part})", New: "held, done := []hold.Part{{Number: d.target.part, Fence: 1}}, func() {}"}},
		Tests: onHookrelay("TestStoppedAtEachPoint$/^pgxstore$"),
	},
	{
		Name: "a relay that was stopped while it sends keeps an attempt of what another one has delivered",
		Edits: []Edit{{
			In:  "webhook.(*Relay).settleArrays",
			Old: "`) select endpoint, event, NOW - age * interval '1 microsecond', micros, status, error, size, answer, encrypted, cause, host from changed`, append(dialect.Arrays(rows), more...)...",
			New: "`) select endpoint, event, NOW - age * interval '1 microsecond', micros, status, error, size, answer, encrypted, cause, host from changed union all select endpoint, event, NOW - age * interval '1 microsecond', micros, status, error, size, answer, encrypted, cause, host from ` + strings.Split(from, \" where \")[0] + ` where not exists (select 1 from once_webhook_delivery d where d.endpoint = x.endpoint and d.event = x.event)`, append(append(dialect.Arrays(rows), more...), dialect.Arrays(rows)...)...",
		}},
		Tests: onHookrelay("TestStoppedAtEachWrite$/^pgxstore$"),
	},
	{
		Name:  "an endpoint is disabled for a failure of long ago, although it was delivered to since",
		Edits: []Edit{{In: "webhook.(*Relay).hasSucceeded", Old: "yes = true", New: "yes = false"}},
		Tests: onHookrelay("TestFailedLongAgo$/^SQLite$"),
	},
}
