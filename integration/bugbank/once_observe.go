package bugbank

// onceObserveMutants are bugs of events, logs and traces in the root package.
var onceObserveMutants = []Mutant{
	{
		Name:  "without an observer nothing is logged",
		Edits: []Edit{{In: "once.New", Old: "cfg.Observer = logObserver{}", New: "cfg.Observer = nil"}},
		Tests: in("", "TestDefaultLog"),
	},
	{
		Name:  "the default log shows what is in order",
		Edits: []Edit{{In: "(*Engine).shows", Old: "(!e.alarms || levelOf(ev) >= slog.LevelWarn)", New: "true"}},
		Tests: in("", "TestDefaultLog"),
	},
	{
		Name:  "a business 409 is told as a failure",
		Edits: []Edit{{In: "(*call).observeEnd", Old: "&& answer.NotStored()", New: "&& false && answer.NotStored()"}},
		Tests: in("oncehttp", "TestNotStored"),
	},
	{
		Name: "the observer is told that what is in doubt was applied",
		Edits: []Edit{{
			In:  "(*call).observeEnd",
			Old: "Outcome(CodeOf(v.err)), EffectOf(v.err)",
			New: "Outcome(CodeOf(v.err)), max(EffectOf(v.err), EffectNotApplied)",
		}},
		Tests: []Killer{history},
	},
	{
		Name:  "a redirect is a success that has touched nothing",
		Edits: []Edit{{In: "(*call).observeEffectOutside", Old: "a.Result.Status >= 300 ||", New: ""}},
		Tests: in("", "TestEffectOutsideTx"),
	},
	{
		Name:  "each transaction of an inbox is a line of the log",
		Edits: []Edit{{In: "once.levelOf", Old: "return slog.LevelDebug\n}\nreturn slog.LevelInfo", New: "return slog.LevelInfo\n}\nreturn slog.LevelInfo"}},
		Tests: []Killer{{Module: ".", Test: "TestLogLevels"}},
	},
	{
		Name:  "the span of a call is not that of its handler",
		Edits: []Edit{{In: "once.(*call).begin", Old: "ctx, c.report.trace = began, cmp.Or(trace, op.Attempt.Trace)", New: "_, c.report.trace = began, cmp.Or(trace, op.Attempt.Trace)"}},
		Tests: in("", "TestTracerContextReachesHandlerAndEvents"),
	},
	{
		Name:  "waiting for a connection counts as looking up",
		Edits: []Edit{{In: "once.(*call).send", Old: "e.LookUp = max(0, c.report.lookUp-e.Acquire-e.LockWait)", New: "e.LookUp = max(0, c.report.lookUp)"}},
		Tests: in("", "TestObserverSeesWhereTimeGoes"),
	},
	{
		Name:  "warnings are sampled",
		Edits: []Edit{{In: "once.(logObserver).Observe", Old: "level < slog.LevelWarn && !o.samples(e)", New: "level <= slog.LevelWarn && !o.samples(e)"}},
		Tests: in("", "TestSampledLogKeepsWarnings"),
	},
	{
		Name:  "the lines of a key are sampled one by one",
		Edits: []Edit{{In: "once.(logObserver).samples", Old: "err != nil", New: "err != nil || n > 0"}},
		Tests: in("", "TestSampledLogKeepsWarnings"),
	},
	{
		Name:  "a replay is logged with the trace of the call that has executed",
		Edits: []Edit{{In: "once.(*call).named", Old: "traceparent.TraceID(c.report.trace)", New: "traceparent.TraceID(e.Trace + c.report.trace)"}},
		Tests: in("", "TestLogTellsTheCallAndWhatItReplays"),
	},
	{
		Name:  "an attribute is not in the table of the docs",
		Edits: []Edit{{In: "once.(logObserver).Observe", Old: `text("idempotency_key", e.KeyHash)`, New: `text("key_hash", e.KeyHash)`}},
		Tests: in("", "TestLogAttributesAreThoseOfTheTable"),
	},
	{
		Name:  "a deadlock of a Join is told twice",
		Edits: []Edit{{In: "once.(*call).observeEnd", Old: "e.Outcome == Outcome(CodeConflict) && c.e.currentFrame(ctx) == nil", New: "e.Outcome == Outcome(CodeConflict)"}},
		Tests: in(".", "TestDeadlocksAreTold"),
	},
	{
		Name:  "shared cache: engines of leases have one",
		Edits: []Edit{{In: "once.New", Old: "irrevocable && cfg.Shared != nil", New: "irrevocable && cfg.Shared != nil && cfg.Runs == 0"}},
		Tests: in("", "TestSharedIsNotForLeases"),
	},
	{
		Name:  "an error that is logged has the key of the client",
		Edits: []Edit{{In: "once.(*Error).Error", Old: "keyname.Hashes(e.Key)[0]", New: "e.Key"}},
		Tests: in("", "TestNoLogHasAKeyOfAClient"),
	},
	{
		Name:  "an error without an operation has an empty scope and key",
		Edits: []Edit{{In: "once.(*Error).Error", Old: "len(names) > 0", New: "len(names) >= 0"}},
		Tests: in("", "TestErrorSaysCodeEffectAndCause"),
	},
	{
		Name:  "leased work is always found absent",
		Edits: []Edit{{In: "once.(*call).execute", Old: "c.report.from, c.report.left = w.Found(), w", New: "c.report.left = w"}},
		Tests: onLease("TestEventsTellTheStatesOfLeasedWork"),
	},
	{
		Name:  "leased work that waits has no state in the log",
		Edits: []Edit{{In: "lease.(*Run).park", Old: "r.left = next.Next.State.String()", New: ""}},
		Tests: onLease("TestEventsTellTheStatesOfLeasedWork"),
	},
	{
		Name:  "the log has a state that was not written",
		Edits: []Edit{{In: "once.(*call).stateAfter", Old: "(e.Outcome != Outcome(CodeUnknown) || c.report.left != nil)", New: "e.Outcome != Outcome(CodeUnknown)"}},
		Tests: onLease("TestStateThatIsNotWrittenIsNotTold"),
	},
}
