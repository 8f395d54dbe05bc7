package bugbank

// telemetryMutants are bugs of package telemetry.
var telemetryMutants = []Mutant{
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
		Tests: in("telemetry", "TestCompleterLogs"),
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
}
