package bugbank

// onceotelMutants are bugs of package onceotel.
var onceotelMutants = []Mutant{
	{
		Name:  "a replay does not link to the execution",
		Edits: []Edit{{In: "onceotel.(*operation).finish", Old: "sc := spanContext(e.Trace); sc.IsValid()", New: "sc := spanContext(e.Trace); !sc.IsValid()"}},
		Tests: onceotel("TestReplayLinksToTheExecution"),
	},
	{
		Name:  "an execution links to itself",
		Edits: []Edit{{In: "onceotel.(*operation).finish", Old: "case meter.DecisionDBHit,", New: "case meter.DecisionNewExecution, meter.DecisionDBHit,"}},
		Tests: onceotel("TestReplayLinksToTheExecution"),
	},
	{
		Name:  "the span in the context is taken for that of the operation",
		Edits: []Edit{{In: "onceotel.(*Telemetry).Observe", Old: "o := t.operationOf(ctx)", New: "o := &operation{span: trace.SpanFromContext(ctx)}"}},
		Tests: onceotel("TestObserverWithoutAStartEndsNoSpan"),
	},
	{
		Name:  "the trace of the caller is the parent, and not the span of the server",
		Edits: []Edit{{In: "onceotel.(*Telemetry).TraceStart", Old: "&& !trace.SpanContextFromContext(ctx).IsValid()", New: ""}},
		Tests: onceotel("TestSpanIsAChildOfTheServers"),
	},
	{
		Name:  "an outcome that a person must find out is no error of its span",
		Edits: []Edit{{In: "onceotel.needsPerson", Old: "once.CodeMisuse, once.CodeUnknown:", New: "once.CodeMisuse:"}},
		Tests: onceotel("TestUnknownIsInASpan"),
	},
	{
		Name:  "each measurement makes its labels again",
		Edits: []Edit{{In: "onceotel.(*recorder).optionsOf", Old: "o := m.labels[s]", New: "o := m.labels[series{}]"}},
		Tests: onceotel("TestSampledOutCostsTenAllocations"),
	},
	{
		Name:  "the label of a gauge is left out",
		Edits: []Edit{{In: "onceotel.observeGauges", Old: `if o.label != "" {`, New: `if o.label == "" {`}},
		Tests: onceotel("TestGaugesAreThoseOfTheWatch"),
	},
	{
		Name:  "the key of an operation takes the place of that of a request",
		Edits: []Edit{{In: "onceotel.(*Telemetry).inject", Old: "!has(h, headerKey) && !has(h, wire.KeyHeader)", New: "!has(h, wire.KeyHeader)"}},
		Tests: onceotel("TestKeyTravelsDownstream"),
	},
	{
		Name:  "the correlation id goes to every service",
		Edits: []Edit{{In: "onceotel.(*Telemetry).inject", Old: "|| t.cfg.Downstream != KeyInHeader", New: ""}},
		Tests: onceotel("TestKeyTravelsDownstream"),
	},
	{
		Name:  "the first attempt counts as a repetition",
		Edits: []Edit{{In: "onceotel.(*Telemetry).AttemptSpan", Old: "n > 0", New: "n >= 0"}},
		Tests: onceotel("TestCallHasASpanForEachAttempt"),
	},
	{
		Name:  "the trace is written into the request of all attempts",
		Edits: []Edit{{In: "onceotel.(*Telemetry).AttemptSpan", Old: "t.inject(ctx, own.Header)", New: "t.inject(req.Context(), own.Header)"}},
		Tests: onceotel("TestCallHasASpanForEachAttempt"),
	},
	{
		Name:  "a span tells the query of a URL",
		Edits: []Edit{{In: "onceotel.attributesOf", Old: `u.User, u.RawQuery, u.Fragment = nil, "", ""`, New: "u.User = nil"}},
		Tests: onceotel("TestCallHasASpanForEachAttempt"),
	},
	{
		Name:  "a delivery does not link to its producer",
		Edits: []Edit{{In: "onceotel.(*Telemetry).OutboxSpan", Old: "traces[i], ids[i] = messages[i].Trace, messages[i].ID", New: "ids[i] = messages[i].ID"}},
		Tests: onceotel("TestMessageIsLinkedFromProducerToConsumer"),
	},
	{
		Name:  "the spans of messages do not name their broker",
		Edits: []Edit{{In: "onceotel.(*Telemetry).messaging", Old: "cmp.Or(t.cfg.Broker, system)", New: "cmp.Or(system, t.cfg.Broker)"}},
		Tests: onceotel("TestMessageIsLinkedFromProducerToConsumer"),
	},
	{
		Name:  "a delivery that has failed has no type of error",
		Edits: []Edit{{In: "onceotel.(*Telemetry).OutboxSpan", Old: "span.SetAttributes(errorTypeOf(err))", New: "_ = errorTypeOf"}},
		Tests: onceotel("TestErrorTypeOfADelivery"),
	},
	{
		Name:  "a method that is not known is lost",
		Edits: []Edit{{In: "onceotel.attributesOf", Old: "semconv.HTTPRequestMethodOther, semconv.HTTPRequestMethodOriginal(req.Method)", New: "semconv.HTTPRequestMethodOther"}},
		Tests: onceotel("TestMethodsUnknownToTheConventions"),
	},
	{
		Name:  "a node runs sagas in its own trace",
		Edits: []Edit{{In: "onceotel.(*Telemetry).SagaSpan", Old: "options = append(options, trace.WithNewRoot())", New: ""}},
		Tests: onceotel("TestSagasAreSeen"),
	},
}
