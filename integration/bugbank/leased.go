package bugbank

// leasedMutants are bugs of what the engine assumes of a store, and of what it tells observers and
// handlers.
var leasedMutants = []Mutant{
	{
		Name:  "a final failure of work that cannot be undone is rolled back",
		Edits: []Edit{{In: "once.(*call).run", Old: "r.rollback = a.Rollback && !c.e.irrevocable;", New: "r.rollback = a.Rollback;"}},
		Tests: in("", "TestLeasedFailureIsCommitted"),
	},
	{
		Name:  "a lost commit of work that cannot be undone is settled by claiming it",
		Edits: []Edit{{In: "(*call).committed", Old: "if kind == store.KindLost && !c.e.irrevocable {", New: "if kind == store.KindLost {"}},
		Tests: in("", "TestLeasedCommitIsNotSettled"),
	},
	{
		Name:  "steps that stand after a failure are not told",
		Edits: []Edit{{In: "(*call).runFailed", Old: "case store.KindEnded, store.KindPartial, store.KindUncertain: // what", New: "case store.KindEnded, store.KindUncertain: // what"}},
		Tests: in("", "TestLeasedHandlerFails"),
	},
	{
		Name:  "a call that was begun before a panic is not told",
		Edits: []Edit{{In: "(*call).panicked", Old: "case store.KindEnded, store.KindPartial, store.KindUncertain:", New: "case store.KindEnded, store.KindPartial:"}},
		Tests: in("", "TestLeasedHandlerFails"),
	},
	{
		Name:  "a handler is not told why its context has ended",
		Edits: []Edit{{In: "once.(*call).execute", Old: "cancel(ErrClaimLost)", New: "cancel(nil)"}},
		Tests: in("", "TestClaimLostEndsTheHandler"),
	},
	{
		Name:  "a duplicate in the same process does not look what a lease was claimed for",
		Edits: []Edit{{In: "once.(*call).follow", Old: "if c.e.irrevocable { // the", New: "if c.e.irrevocable && until.IsZero() { // the"}},
		Tests: in("", "TestLeasedDuplicates"),
	},
	{
		Name:  "the trace is not kept with the operation",
		Edits: []Edit{{In: "(*call).change", Old: "Trace: c.report.trace, Name: c.op.Name}", New: "Name: c.op.Name}"}},
		Tests: in("", "TestTracer"),
	},
	{
		Name:  "the name is not kept with the operation",
		Edits: []Edit{{In: "(*call).change", Old: ", Name: c.op.Name}", New: "}"}},
		Tests: in("", "TestNameIsStored"),
	},
	{
		Name:  "the span of a call is not that of its handler",
		Edits: []Edit{{In: "once.(*call).begin", Old: "ctx, c.report.trace = began, cmp.Or(trace, op.Attempt.Trace)", New: "_, c.report.trace = began, cmp.Or(trace, op.Attempt.Trace)"}},
		Tests: in("", "TestTracer"),
	},
	{
		Name:  "waiting for a connection counts as looking up",
		Edits: []Edit{{In: "once.(*call).send", Old: "e.LookUp = max(0, c.report.lookUp-e.Acquire-e.LockWait)", New: "e.LookUp = max(0, c.report.lookUp)"}},
		Tests: in("", "TestObserverSeesWhereTimeGoes"),
	},
	{
		Name:  "a client is told that nothing was applied by work that has stopped behind a phase",
		Edits: []Edit{{In: "oncehttp.(*Exchange).Problem", Old: "if e.Effect == once.EffectInDoubt { // phases", New: "if e.Effect == once.EffectApplied { // phases"}},
		Tests: in("oncehttp", "TestLeasedWorkHasStopped"),
	},
	{
		Name:  "a handler that is resumed does not know its client",
		Edits: []Edit{{In: "oncehttp.(*plan).restore", Old: "principal: principal, body: inMemory(body)}", New: "body: inMemory(body)}"}},
		Tests: in("oncehttp", "TestResume"),
	},
	{
		Name:  "a request of another route is resumed",
		Edits: []Edit{{In: "oncehttp.(*plan).restore", Old: "if wire.Scope(principal, p.routeOf(r)) != op.Scope {", New: `if op.Scope == "" {`}},
		Tests: in("oncehttp", "TestResumeRefuses"),
	},
	{
		Name:  "a resumed request that no route takes has 404 for good",
		Edits: []Edit{{In: "oncehttp.routed", Old: "h != http.Handler(next)", New: "h == nil"}},
		Tests: in("oncehttp", "TestResumeRefuses"),
	},
	{
		Name:  "a final failure over HTTP can be retried for ever",
		Edits: []Edit{{In: "oncehttp.Fail", Old: "case ok && final != nil:", New: "case ok && err == nil:"}},
		Tests: in("oncehttp", "TestFailWithAFailure"),
	},
	{
		Name:  "the answer of a final failure has headers of the one before",
		Edits: []Edit{{In: "oncehttp.(*run).end", Old: "clear(header)", New: ""}},
		Tests: in("oncehttp", "TestFailWithAFailure"),
	},
	{
		Name:  "a batch is executed under a lease, without a phase",
		Edits: []Edit{{In: "lease.(*Store).Begin", Old: "if opts.Batch {", New: "if opts.Batch && opts.ID.IsZero() {"}},
		Tests: in("lease", "TestBatchIsMisused"),
	},
	{
		Name:  "the state of an operation is told to another tenant",
		Edits: []Edit{{In: "oncehttp.StatusHandler", Old: "Scope: wire.Scope(principal, route)", New: `Scope: wire.Scope("acme", route)`}},
		Tests: in("oncehttp", "TestStatus"),
	},
	{
		Name:  "work whose owner has died in a call is told as running",
		Edits: []Edit{{In: "once.(*Engine).ReadRecord", Old: "rec.State = store.StateUnknown", New: "rec.State = store.StateRunning"}},
		Tests: in("", "TestRead"),
	},
	{
		Name:  "a first attempt that is none fails on the effect of an earlier run",
		Edits: []Edit{{In: "lease.(*Run).park", Old: "rec.State != store.StateAbsent {", New: "rec.State == store.StateDone {"}},
		Tests: in("lease", "TestFirstAttemptThatIsNone"),
	},
}
