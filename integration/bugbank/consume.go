package bugbank

// consumeMutants are bugs of package internal/consume.
var consumeMutants = []Mutant{
	{
		Name:  "a message is acknowledged before it is applied",
		Edits: []Edit{{In: "consume.(*Pool).handleNext", Old: "results := p.handle(handlers, w.batch)", New: "for _, d := range w.batch {\nd.Receipt.Ack()\n}\nresults := p.handle(handlers, w.batch)"}},
		Tests: consumerTest("TestNATSHandlerIsSlow"),
	},
	{
		Name:  "a message with a long pause stays in the pool when Hold is over",
		Edits: []Edit{{In: "consume.(*Pool).holdEnds", Old: "p.cfg.Hold == 0", New: "p.cfg.Hold >= 0"}},
		Tests: in("internal/consume", "TestHoldEndsALongPause"),
	},
	{
		Name:  "a message is tried again when Hold is over, before the end of its pause",
		Edits: []Edit{{In: "consume.(*backlog).due", Old: "a.list = slices.DeleteFunc(a.list, left)", New: "_ = left"}},
		Tests: in("internal/consume", "TestHoldEndsALongPause"),
	},
	{
		Name:  "a message that has failed is acknowledged",
		Edits: []Edit{{In: "consume.(*Pool).answer", Old: "err == nil", New: "err == nil || d.failures == 0"}},
		Tests: in("internal/consume", "TestBrokerDeliversAgain"),
	},
	{
		Name:  "messages of a key are in two workers",
		Edits: []Edit{{In: "consume.(*backlog).take", Old: "s.inHand = true", New: "s.inHand = false"}},
		Tests: in("internal/consume", "TestKeyInHand"),
	},
	{
		Name:  "a message of a partition that was given away is begun",
		Edits: []Edit{{In: "consume.(*backlog).take", Old: "!d.dropped", New: "true"}},
		Tests: in("internal/consume", "TestDropBeginsNoMoreMessages"),
	},
	{
		Name:  "a message without number is overtaken by later ones of its key",
		Edits: []Edit{{In: "consume.(*backlog).postpone", Old: "a.line.held = a.line.held || a.holds", New: "a.line.held = a.line.held && a.holds"}},
		Tests: in("internal/consume", "TestInPlace"),
	},
	{
		Name:  "messages that have failed keep others from being fetched",
		Edits: []Edit{{In: "consume.(*Pool).Room", Old: "count, bytes := len(p.held)-p.aside.count, p.bytes-p.aside.bytes", New: "count, bytes := len(p.held), p.bytes"}},
		Tests: in("internal/consume", "TestFailedCountApart"),
	},
	{
		Name:  "messages that have failed take all places",
		Edits: []Edit{{In: "consume.(*Pool).mayTry", Old: "return taken < limit/2", New: "return true"}},
		Tests: in("internal/consume", "TestFailedCountApart"),
	},
	{
		Name:  "messages that have failed wait for those that hang",
		Edits: []Edit{{In: "consume.(*Pool).mayTry", Old: "if p.busy[c] == 0 {", New: "if p.busy[c] < 0 {"}},
		Tests: in("internal/consume", "TestHangingHandlers"),
	},
	{
		Name:  "messages that fail take the time of healthy ones",
		Edits: []Edit{{In: "consume.(*Pool).rest", Old: "* troubleShare", New: "* 0"}},
		Tests: in("internal/consume", "TestTroubleShare"),
	},
	{
		Name:  "handlers that hang take all places",
		Edits: []Edit{{In: "consume.(*Pool).hangingPlaces", Old: "min(p.sink.Hanging(), max(1, p.pressure.limit()/2)-1)", New: "p.sink.Hanging()"}},
		Tests: in("internal/consume", "TestHangingHandlers"),
	},
	{
		Name:  "a slow key is noticed only when a consumer waits for room",
		Edits: []Edit{{In: "consume.(*Pool).watch", Old: "p.setSlowApart(now)", New: "_ = now"}},
		Tests: in("internal/consume", "TestSlowKey"),
	},
	{
		Name:  "messages that have failed are told as ready",
		Edits: []Edit{{In: "consume.(*Pool).Backlog", Old: "case d.class != healthy, s.held,", New: "case s.held && d.class == healthy,"}},
		Tests: in("internal/consume", "TestBacklogOfThePool"),
	},
	{
		Name:  "messages that wait for one of their key keep others from being fetched",
		Edits: []Edit{{In: "consume.(*Pool).setSlowApart", Old: "p.setQueueApart(s)", New: "_ = s"}},
		Tests: in("internal/consume", "TestSlowKey"),
	},
	{
		Name:  "the broker hears nothing of messages that wait for a worker",
		Edits: []Edit{{In: "consume.(*Pool).extend", Old: "d.Receipt.Extend()", New: "if d.inHand {\nd.Receipt.Extend()\n}"}},
		Tests: in("internal/consume", "TestExtendCoversThePool"),
	},
	{
		Name:  "a database that is down is asked without a pause",
		Edits: []Edit{{In: "consume.(*pressure).ended", Old: "p.until = now.Add(backoff(p.refusals))", New: "p.until = now"}},
		Tests: in("internal/consume", "TestDatabaseIsDown"),
	},
	{
		Name:  "a consumer that waits for connections does not give way",
		Edits: []Edit{{In: "consume.(*pressure).ended", Old: "p.allowed = max(1, p.allowed*3/4)", New: "p.allowed = max(1, p.allowed)"}},
		Tests: in("internal/consume", "TestSlowAcquire"),
	},
	{
		Name:  "a consumer that has waited for connections stays slow",
		Edits: []Edit{{In: "consume.(*pressure).ended", Old: "case !slow:", New: "case !slow && p.slowed.IsZero():"}},
		Tests: in("internal/consume", "TestSlowAcquire"),
	},
	{
		Name:  "batches that have waited at the same time count one by one",
		Edits: []Edit{{In: "consume.(*pressure).ended", Old: "case !began.Before(p.slowed):", New: "default:"}},
		Tests: in("internal/consume", "TestSlowAcquire"),
	},
	{
		Name:  "a handler that ends its goroutine has applied its messages",
		Edits: []Edit{{In: "consume.(*Pool).apply", Old: "results[i].Err = errGoexit", New: "_ = i"}},
		Tests: in("internal/consume", "TestHandlerEndsItsGoroutine"),
	},
}
