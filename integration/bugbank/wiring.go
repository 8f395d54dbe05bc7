package bugbank

func wiring(test string) []Killer {
	return []Killer{{Module: "integration", Package: "telemetry", Test: test}}
}

// wiringMutants are bugs of what is built from one Telemetry, of the demo that feeds the dashboard, and of the verdict of a storm.
var wiringMutants = []Mutant{
	{
		Name:  "a relay that is wired makes no span",
		Edits: []Edit{{In: "telemetry.(Telemetry).Relay", Old: "cfg.Tracer == nil && t.Tracer != nil", New: "cfg.Tracer != nil && t.Tracer != nil"}},
		Tests: wiring("TestOneTelemetryWiresEverything$/^pgxstore$/^messages"),
	},
	{
		Name:  "an inbox that is wired makes no span",
		Edits: []Edit{{In: "telemetry.(Telemetry).Inbox", Old: "cfg.Tracer == nil && t.Tracer != nil", New: "cfg.Tracer != nil && t.Tracer != nil"}},
		Tests: wiring("TestOneTelemetryWiresEverything$/^pgxstore$/^messages"),
	},
	{
		Name:  "a wired outbox keeps no trace of the operation",
		Edits: []Edit{{In: "telemetry.(Telemetry).Outbox", Old: "cfg.Trace = t.traceOf(cfg.Trace)", New: ""}},
		Tests: wiring("TestOneTelemetryWiresEverything$/^pgxstore$/^messages"),
	},
	{
		Name:  "a completer that is wired logs elsewhere",
		Edits: []Edit{{In: "telemetry.(Telemetry).Completer", Old: "c.Log = t.Logger", New: "c.Log = nil"}},
		Tests: wiring("TestOneTelemetryWiresEverything$/^pgxstore$/^completer"),
	},
	{
		Name:  "a client that is wired does not log",
		Edits: []Edit{{In: "telemetry.(Telemetry).Policy", Old: "list = append(list, retry.Log(t.Logger))", New: ""}},
		Tests: wiring("TestOneTelemetryWiresEverything$/^pgxstore$/^retry_client"),
	},
	{
		Name:  "what is metrics and tracer counts twice",
		Edits: []Edit{{In: "telemetry.(Telemetry).recorders", Old: "Metrics(t.Tracer) != t.Metrics", New: "Metrics(t.Tracer) != nil"}},
		Tests: onceotel("TestOneThatCountsAndTracesCountsOnce"),
	},
	{
		Name:  "a handler does not get the context of its span",
		Edits: []Edit{{In: "inbox.(*Inbox).traced", Old: "ctx, end := in.cfg.Tracer.InboxSpan", New: "_, end := in.cfg.Tracer.InboxSpan"}},
		Tests: onceotel("TestSpansOfMessagesReachHandlerAndPublisher"),
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
	{
		Name:  "a watch takes sources that it never asks",
		Edits: []Edit{{In: "gauge.(*Watch).Add", Old: "if w.running {", New: "if false {"}},
		Tests: in("gauge", "TestWatchTakesSourcesUntilItRuns"),
	},
	{
		Name:  "the first settled commit is no increase",
		Edits: []Edit{{In: "meter.(*Meter).Operation", Old: "zero := instrument.One(instrument.Settled, name, effectOf(effect))\n\t\t\tzero.Value = 0\n\t\t\trecord(zero)", New: "_ = effect"}},
		Tests: in("internal/meter", "TestRareCountersBeginAtZero"),
	},
	{
		Name:  "the warehouse of the demo is not measured",
		Edits: []Edit{{In: "demo.(*serve).observe", Old: "watch.Add(w.sources()...)", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestEveryPanelHasDataInTheDemo"}},
	},
	{
		Name:  "a verdict says that retries help where they do harm",
		Edits: []Edit{{In: "simulate.(Result).gain", Old: "r.share() - than.share()", New: "than.share() - r.share()"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestStormSaysItsVerdict$/^ordinary"}},
	},
	{
		Name:  "a storm leaves out what is under way at its end",
		Edits: []Edit{{In: "simulate.Run", Old: "r.result.Open = r.result.Intents - r.result.Succeeded - r.result.Failed", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestStormSaysItsVerdict$/^ordinary"}},
	},
}
