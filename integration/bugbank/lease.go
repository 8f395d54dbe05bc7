package bugbank

// leaseMutants are bugs of package lease.
var leaseMutants = []Mutant{
	{
		Name:  "a Completer floods the log while the database is down",
		Edits: []Edit{{In: "lease.(Completer).Run", Old: "omitted, ok := outage.Fails(\"\", err, began); ok", New: "omitted, ok := outage.Fails(\"\", err, began); ok || omitted == nil"}},
		Tests: in("lease", "TestOutageIsLoggedOnceAMinute"),
	},
	{
		Name:  "a Completer that polls rarely resumes at every second poll",
		Edits: []Edit{{In: "(*completing).pause", Old: "min(c.Every, longestPause/2)", New: "c.Every"}},
		Tests: in("lease", "TestRarePollsEachResumeWhatFails"),
	},
	{
		Name:  "a decided operation waits until the pause of its earlier tries is over",
		Edits: []Edit{{In: "lease.(*completing).isTime", Old: "t.count, t.next = 0, time.Time{}", New: "t.count = 0"}},
		Tests: onLease("TestDecidedOperationIsResumedByTheNextPoll"),
	},
	{
		Name:  "a phase does not name its events",
		Edits: []Edit{{In: "lease.(*transaction).runIn", Old: "next.Phases[len(next.Phases)-1].Events = own.Events()", New: "_ = own.Events()"}},
		Tests: console("TestTrailOfSteps"),
	},
	{
		Name:  "each caller of what is unknown asks",
		Edits: []Edit{{In: "lease.(*Store).asks", Old: "ago >= s.cfg.AskEvery ||", New: "ago >= 0 ||"}},
		Tests: in("lease", "TestCallersAsk"),
	},
	{
		Name: "a Completer that only asks goes on with what was voided",
		Edits: []Edit{
			{In: "lease.(*completing).resume", Old: "case c.AskOnly && !s.Call.checks(time.Now()):", New: "case c.AskOnly && s.Call != nil && !s.Call.Check:"},
			{In: "lease.(*completing).round", Old: "e.State != store.StateUnknown && !e.CallStarted", New: "e.CallStarted && !e.CallStarted"},
		},
		Tests: in("lease", "TestCompleterAsksOnly"),
	},
	{
		Name:  "a service is asked about what it has forgotten",
		Edits: []Edit{{In: "lease.(*intent).checks", Old: "c.isYounger(c.CheckFor, now)", New: "true"}},
		Tests: in("lease", "TestForgottenCallsAreNotAsked"),
	},
	{
		Name:  "a service is asked for as long as it promised once",
		Edits: []Edit{{In: "lease.(*call).find", Old: "!r.saved.Call.isYounger(sure(c.policy.CheckedFor), now)", New: "false"}},
		Tests: in("lease", "TestForgottenCallsAreNotAsked"),
	},
	{
		Name:  "a late owner of what can be asked about is told that nothing tells its outcome",
		Edits: []Edit{{In: "lease.(*Run).standing", Old: "r.saved.Call.checks(time.Now())", New: "errors.Is(cause, errAsked)"}},
		Tests: in("lease", "TestLateOwnerIsToldToAskAgain"),
	},
	{
		Name:  "the writes of a batch commit without its phase",
		Edits: []Edit{{In: "lease.(*Run).write", Old: "r.saved = next", New: "_ = next"}},
		Tests: in("lease", "TestPhaseThatIsABatch"),
	},
	{
		Name:  "an owner that was taken over goes on behind a batch",
		Edits: []Edit{{In: "lease.(*Run).write", Old: "case store.KindOf(err) == store.KindTaken:", New: "case store.KindOf(err) == store.KindTaken && phase == \"\":"}},
		Tests: in("lease", "TestBatchOfAnOwnerThatWasTakenOver"),
	},
	{
		Name:  "a handler can end its own run",
		Edits: []Edit{{In: "lease.Run", Old: "own *held.Owner", New: "*held.Owner\nown *held.Owner"}}, // with all that it can do
		Tests: in("lease", "TestAHandlerCannotEndItsRun"),
	},
	{
		Name: "after a lost commit of a phase its record is sent alone",
		Edits: []Edit{{
			In: "lease.(*transaction).untilCommitted", Old: "switch applied, e := t.isApplied(ctx); {",
			New: `if next, e := t.run.done(t.phase, t.value); kind == store.KindLost && e == nil && t.run.swap(ctx, t.run.running(next)) == nil {
t.run.saved, t.run.lost = next, nil
return nil
}
switch applied, e := t.isApplied(ctx); {`,
		}},
		Tests: onLease("TestEveryPointFails"),
	},
	{
		Name:  "a phase whose commit was lost does not run again under the same fence",
		Edits: []Edit{{In: "lease.(*transaction).untilCommitted", Old: "case applied:", New: "case applied || kind == store.KindLost && e == nil:"}},
		Tests: onLease("TestEveryPointFails"),
	},
	{
		Name:  "a phase that was lost and taken over is told as not applied",
		Edits: []Edit{{In: "lease.(*transaction).untilCommitted", Old: "t.lost, t.run.lost = err, err", New: "t.lost = err"}},
		Tests: onLease("TestLostPhaseIsInDoubt"),
	},
	{
		Name:  "a call is made before its intent is stored",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "switch err := r.swap(ctx, r.running(next)); {", New: "switch err := error(nil); {"}},
		Tests: onLease("TestPropertiesOfRandomSchedules"),
	},
	{
		Name:  "that a call may be made again is not stored",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "Repeat: c.policy.repeats(),", New: ""}},
		Tests: onLease("TestFailedCall"),
	},
	{
		Name:  "what is said now counts, and not what was said when the call was made",
		Edits: []Edit{{In: "lease.(*intent).repeats", Old: "c.Repeat &&", New: "c.Phase != \"\" &&"}},
		Tests: onLease("TestPropertiesOfRandomSchedules"),
	},
	{
		Name:  "a service that forgets keys is asked again for ever",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "life > 0 {", New: "life < 0 {"}},
		Tests: onLease("TestFailedCall"),
	},
	{
		Name:  "a call that the service does not know is made again",
		Edits: []Edit{{In: "lease.(*call).find", Old: "case found == Voided:", New: "case found != Happened:"}},
		Tests: onLease("TestPropertiesOfRandomSchedules"),
	},
	{
		Name:  "a call is made again under a key that is void",
		Edits: []Edit{{In: "lease.(saved).void", Old: "voided{phase, 1}", New: "voided{phase, 0}"}},
		Tests: onLease("TestFailedCall"),
	},
	{
		Name:  "a call that was not sent this time forgets that it was sent before",
		Edits: []Edit{{In: "lease.(*call).answered", Old: "errors.As(err, &unsent) && !c.again", New: "errors.As(err, &unsent)"}},
		Tests: onLease("TestNotSentAfterASend"),
	},
	{
		Name:  "another attempt sends another request under the same key",
		Edits: []Edit{{In: "lease.(*call).make", Old: "request = frozen", New: "_ = frozen"}},
		Tests: onLease("TestNotSentAfterASend"),
	},
	{
		Name: "who takes a call over makes it again, whatever was said",
		Edits: []Edit{
			{In: "lease.(*Run).takeOver", Old: "saved.Call != nil && !saved.Call.resumable(time.Now())", New: "saved.Call != nil && saved.Call.Phase == \"\""},
			{In: "lease.(*call).make", Old: "if !begun.repeats(time.Now()) {", New: "if begun.Check {"},
		},
		Tests: onLease("TestPropertiesOfRandomSchedules"),
	},
	{
		Name: "work whose outcome is unknown runs again by itself",
		Edits: []Edit{
			{In: "lease.(*Store).takesOver", Old: "&& (reconciles(ctx) || s.asks(rec))", New: ""},
			{In: "lease.(*Run).takeOver", Old: "!saved.Call.checks(time.Now())", New: "saved.Call == nil"},
		},
		Tests: onLease("TestPropertiesOfRandomSchedules"),
	},
	{
		Name:  "work is done although a call of it did not end",
		Edits: []Edit{{In: "lease.(runTx).Commit", Old: "case r.saved.Call != nil: return r.park(ctx, errCallPending)", New: ""}},
		Tests: onLease("TestSwallowedCall"),
	},
	{
		Name:  "other phases run while a call did not end",
		Edits: []Edit{{In: "lease.(*Run).enter", Old: "&& !r.saved.has(name)", New: "&& name == \"\""}},
		Tests: onLease("TestSwallowedCall"),
	},
	{
		Name:  "phases that have ended are refused while a call did not end",
		Edits: []Edit{{In: "lease.(*Run).enter", Old: "&& !r.saved.has(name)", New: ""}},
		Tests: onLease("TestEveryPointFails"),
	},
	{
		Name: "work is taken over while its owner holds it",
		Edits: []Edit{
			{In: "lease.(*Store).takesOver", Old: "rec.Idle()", New: "rec.State == store.StateRunning"},
			{In: "lease.(*Run).takeOver", Old: "LeaseExpired: rec.State == store.StateRunning", New: ""},
		},
		Tests: onLease("TestNotTakenOverWhileHeld"),
	},
	{
		Name:  "a phase that commits by itself runs again",
		Edits: []Edit{{In: "lease.(*transaction).untilCommitted", Old: "if kind == store.KindEnded {", New: "if kind == store.KindEnded && t.lost != nil {"}},
		Tests: onLease("TestPhaseThatCommits"),
	},
	{
		Name:  "a phase that commits by itself and panics runs again",
		Edits: []Edit{{In: "lease.(*transaction).runIn", Old: "t.end()", New: "t.run.lost = undo"}},
		Tests: onLease("TestPhaseThatCommits"),
	},
	{
		Name:  "a phase that has committed by itself before its first write is not stored",
		Edits: []Edit{{In: "lease.(*Run).park", Old: "r.own.Fence() == 0 && r.saved.Call == nil", New: "r.own.Fence() == 0"}},
		Tests: onLease("TestPhaseThatCommits"),
	},
	{
		Name:  "a phase has a name that is stored as another one",
		Edits: []Edit{{In: "lease.checkName", Old: "!utf8.ValidString(name)", New: "len(name) < 0 && !utf8.ValidString(name)"}},
		Tests: onLease("TestNamesOfPhases"),
	},
	{
		Name:  "a phase has a name that no record can keep",
		Edits: []Edit{{In: "lease.maxName", Old: "255", New: "1000"}},
		Tests: onLease("TestNamesOfPhases"),
	},
	{
		Name:  "the failure of a call may have any size",
		Edits: []Edit{{In: "lease.(*Run).failed", Old: "return r.with(phase{Name: name, Failure: &failure})", New: "return r.saved.with(phase{Name: name, Failure: &failure}), nil"}},
		Tests: onLease("TestMaxSaved"),
	},
	{
		Name:  "a handler that ends its goroutine is told as one that has resumed its operation",
		Edits: []Edit{{In: "lease.(*completing).resumeSafely", Old: "err := errGoexit", New: "var err error"}},
		Tests: onLease("TestCompleterOutlivesItsHandlers"),
	},
	{
		Name:  "a call that was begun without a request is made again with one",
		Edits: []Edit{{In: "lease.(*call).resumes", Old: "case c.freezes && frozen == nil && len(request) > 0:", New: "case c.freezes && frozen == nil && len(request) < 0:"}},
		Tests: onLease("TestCallThatFreezesItsRequestNow"),
	},
	{
		Name:  "a program that makes a call under a new name is not warned",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "r.tellUnreached(ctx, c.phase)", New: ""}},
		Tests: onLease("TestRenamedPhasesAreTold"),
	},
	{
		Name:  "a program that ends without a phase that has ended is not warned",
		Edits: []Edit{{In: "lease.(runTx).Commit", Old: `r.tellUnreached(ctx, "")`, New: ""}},
		Tests: onLease("TestRenamedPhasesAreTold"),
	},
	{
		Name:  "what phases return is stored in the clear",
		Edits: []Edit{{In: "lease.(*Run).seal", Old: "if r.opts.Encrypter == nil {", New: "if r.opts.Encrypter == nil || p.Sealed == nil {"}},
		Tests: onLease("TestPhasesAreEncrypted"),
	},
	{
		Name:  "frozen requests are stored in the clear",
		Edits: []Edit{{In: "lease.(*Run).freeze", Old: "if request == nil ||", New: "if request == nil || c.Phase != \"\" ||"}},
		Tests: onLease("TestPhasesAreEncrypted"),
	},
	{
		Name:  "what is encrypted opens in another operation",
		Edits: []Edit{{In: "lease.(*Run).label", Old: "seal.Label(r.id.Scope, r.id.Key)", New: "seal.Label(r.id.Scope, \"\")"}},
		Tests: onLease("TestPhasesAreEncrypted"),
	},
	{
		Name:  "a decision is written about a call that it does not name",
		Edits: []Edit{{In: "lease.(Resolution).compare", Old: "now != how.CallID", New: "how.CallID == now[:0]"}},
		Tests: onLease("TestResolveRefuses"),
	},
	{
		Name:  "a decision that is repeated is written about what is unknown then",
		Edits: []Edit{{In: "lease.(Resolution).compare", Old: "return d.ID == how.CallID", New: "return d.ID == how.Who"}, {In: "lease.(Resolution).compare", Old: "now != how.CallID", New: "how.CallID == now[:0]"}},
		Tests: onLease("TestResolveNamesTheCall"),
	},
	{
		Name:  "a repeated decision is told that it cannot be written",
		Edits: []Edit{{In: "lease.(Resolution).compare", Old: "if s.Was[i].Sum == how.sum() {", New: "if s.Was[i].Sum == how.CallID {"}},
		Tests: onLease("TestResolveAnUnknownOutcome"),
	},
	{
		Name:  "another decision about the same call is told as written",
		Edits: []Edit{{In: "lease.(Resolution).compare", Old: "if s.Was[i].Sum == how.sum() {", New: `if s.Was[i].Sum != "" {`}},
		Tests: onLease("TestResolveAnUnknownOutcome"),
	},
	{
		Name:  "who asks again gives a call another name",
		Edits: []Edit{{In: "lease.callID", Old: `s.Call.ID != ""`, New: `s.Call.ID == "?"`}},
		Tests: onLease("TestCheckedCallKeepsItsName"),
	},
	{
		Name:  "a call that is made again keeps its name",
		Edits: []Edit{{In: "(Resolution).goesOn", Old: "again.ID, again.Repeat, again.Until = newCallID(), true,", New: "again.Repeat, again.Until = true,"}},
		Tests: onLease("TestMadeAgainIsAnotherCall"),
	},
	{
		Name:  "a value of another form is what a call has returned",
		Edits: []Edit{{In: "lease.earlier", Old: "err == nil && sameJSON(p.Value, saved)", New: "err == nil && len(saved) > 0"}},
		Tests: onLease("TestCallValueOfAnotherForm"),
	},
	{
		Name:  "what a person has decided about a call ends the operation",
		Edits: []Edit{{In: "lease.(Resolution).change", Old: "if how.RunAgain || how.CallValue != nil {", New: "if how.RunAgain {"}},
		Tests: onLease("TestResolveAnUnknownOutcome"),
	},
	{
		Name:  "a decision whose COMMIT was lost is not looked for",
		Edits: []Edit{{In: "lease.Resolve", Old: "case lost == nil && (!overtaken || runs >= maxRuns),", New: "case !overtaken || runs >= maxRuns,"}},
		Tests: onLease("TestResolveLost"),
	},
	{
		Name:  "the phases of an operation that has ended are forgotten",
		Edits: []Edit{{In: "lease.(runTx).Commit", Old: "end.Next.Data = r.id, r.own.Nonce, r.saved.ended().encode()", New: "end.Next.Data = r.id, r.own.Nonce, nil"}},
		Tests: onLease("TestPhasesAndACall"),
	},
	{
		Name:  "an operation that has ended keeps the values of its phases",
		Edits: []Edit{{In: "lease.(saved).ended", Old: "phase{Name: p.Name,", New: "phase{Name: p.Name, Value: p.Value,"}},
		Tests: onLease("TestProgressIsKept"),
	},
	{
		Name:  "stopped work stays under a lease that is never over",
		Edits: []Edit{{In: "lease.(*Run).park", Old: "next.Next.State, next.Lease = store.StateWaiting, 0", New: "next.Lease = 0"}},
		Tests: onLease("TestStoppedWorkWaits"),
	},
	{
		Name:  "work that waits in a call is taken over when the call may not be made again",
		Edits: []Edit{{In: "lease.(*Run).takeOver", Old: "if rec.Idle() && saved.Call", New: "if rec.LeaseExpired && saved.Call"}},
		Tests: onLease("TestWaitingInACallThatIsForgotten"),
	},
	{
		Name:  "a person cannot decide a call that work waits in",
		Edits: []Edit{{In: "lease.isUnknown", Old: "rec.Idle() &&", New: "rec.LeaseExpired &&"}},
		Tests: onLease("TestWaitingInACallThatIsForgotten"),
	},
	{
		Name:  "a Completer takes operations whose name it does not know",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "!c.knows(e), ", New: ""}},
		Tests: onLease("TestCompleterLeavesTheRestAlone"),
	},
	{
		Name:  "a Completer looks at the operations of sagas",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "owner.Check(ctx, e.Scope) != nil", New: "false"}},
		Tests: onLease("TestCompleterLeavesTheRestAlone"),
	},
	{
		Name:  "a Completer reads all operations of sagas, page by page",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "c.after = store.ID{Scope: owner.Of(next.Scope).Scopes().Before}", New: ""}},
		Tests: onLease("TestCompleterLooksOnce"),
	},
	{
		Name:  "a look of a Completer reads all that is unfinished",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "for range lookSize / pageSize {", New: "for {"}},
		Tests: onLease("TestCompleterPassesOverTheUnhealthy"),
	},
	{
		Name:  "each look of a Completer begins at the beginning",
		Edits: []Edit{{In: "lease.(*completing).round", Old: "if c.after.IsZero() {", New: "if c.after = (store.ID{}); c.after.IsZero() {"}},
		Tests: onLease("TestCompleterPassesOverTheUnhealthy"),
	},
	{
		Name:  "what was never tried waits behind what fails again and again",
		Edits: []Edit{{In: "lease.(*completing).enqueue", Old: "if t.count > 0 || e.Fence > 1 || e.State == store.StateUnknown {", New: "if e.State == store.StateAbsent {"}},
		Tests: onLease("TestCompleterPassesOverTheUnhealthy"),
	},
	{
		Name:  "a person decides about a saga without its steps",
		Edits: []Edit{{In: "lease.Resolve", Old: "owner.Check(ctx, id.Scope)", New: "owner.Check(ctx, id.Key)"}},
		Tests: onLease("TestResolveRefusesOwners"),
	},
	{
		Name:  "what is unknown waits until a handler ends",
		Edits: []Edit{{In: "lease.(*completing).endsInCall", Old: "if !e.Idle() || !e.CallStarted {", New: "if e.State != store.StateAbsent {"}},
		Tests: onLease("TestCompleterIsNotHeldUp"),
	},
	{
		Name:  "an operation that waits for a place is queued again in each look",
		Edits: []Edit{{In: "lease.(*completing).isTime", Old: "!t.queued &&", New: ""}},
		Tests: onLease("TestCompleterIsNotHeldUp"),
	},
	{
		Name:  "a Completer waits for ever for a database that does not answer",
		Edits: []Edit{{In: "lease.(*completing).list", Old: "context.WithTimeout(ctx, held.SettleTime)", New: "context.WithCancel(ctx)"}},
		Tests: onLease("TestCompleterIsNotHeldUp"),
	},
	{
		Name:  "a Completer finishes an operation with another retention",
		Edits: []Edit{{In: "lease.(*completing).resume", Old: "Attempt: once.Attempt{Trace: rec.Trace}, Retain: s.Retain", New: "Attempt: once.Attempt{Trace: rec.Trace}"}},
		Tests: onLease("TestCompletersFinishEachOperationOnce"),
	},
	{
		Name:  "a duplicate whose first charge was voided is a final failure",
		Edits: []Edit{{In: "lease.(*call).answered", Old: "err = errors.New(err.Error())", New: ""}},
		Tests: onLease("TestDuplicateYieldsTheExistingResult"),
	},
	{
		Name:  "the retention is not stored with the claim",
		Edits: []Edit{{In: "lease.newRun", Old: "saved: saved{Retain: opts.Retain}", New: ""}},
		Tests: onLease("TestResolutionIsKept"),
	},
	{
		Name:  "a duplicate at the provider is the failure of the operation",
		Edits: []Edit{{In: "lease.(*call).answered", Old: "&& failure.Code != codeDuplicate", New: ""}},
		Tests: onLease("TestDuplicateYieldsTheExistingResult"),
	},
	{
		Name:  "a call whose answer was too large is made again",
		Edits: []Edit{{In: "lease.(*call).save", Old: "if err != nil {\nr.saved.Call.Repeat, r.saved.Call.Check = false, false", New: "if err != nil {\n"}},
		Tests: onLease("TestMaxSaved"),
	},
	{
		Name:  "a call is made before its intent is committed",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "err := r.swap(ctx, r.running(next))", New: "err := error(nil)"}},
		Tests: onLeases("TestUnknownOutcomeNeedsResolve$/^SQLite"),
	},
	{
		Name:  "a successor sends the request that it would make itself",
		Edits: []Edit{{In: "(*call).make", Old: "request = frozen", New: "_ = frozen"}},
		Tests: onLeases("TestKillAtProvider$/^SQLite"),
	},
	{
		Name:  "a key that was voided is used again",
		Edits: []Edit{{In: "(saved).void", Old: "voided{phase, 1}", New: "voided{phase, 0}"}},
		Tests: hangsOnLeases("TestCheckedCallHasOneEffect$/^SQLite"),
	},
	{
		Name:  "a phase begins while a call is under way",
		Edits: []Edit{{In: "(*Run).enter", Old: "r.saved.Call.Phase != name", New: `r.saved.Call.Phase == ""`}},
		Tests: onLeases("TestChangedProgram$/^SQLite"),
	},
	{
		Name:  "a call that nothing is said about is made again by the next owner",
		Edits: []Edit{{In: "(*Run).takeOver", Old: "!saved.Call.resumable(time.Now())", New: "!saved.Call.resumable(time.Now()) && saved.Call.Repeat"}},
		Tests: onLeases("TestUnknownOutcomeNeedsResolve$/^SQLite"),
	},
	{
		Name:  "a phase that was committed is executed again by the next owner",
		Edits: []Edit{{In: "lease.InTx", Old: "p, ok := r.saved.find(phase); ok {", New: "p, ok := r.saved.find(phase); ok && p.Failure != nil {"}},
		Tests: onLeases("TestChangedProgram$/^SQLite"),
	},
	{
		Name:  "the claim of a leased operation costs a commit of its own",
		Edits: []Edit{{In: "lease.(*Store).Begin", Old: "eager := s.cfg.Eager", New: "eager := s != nil"}},
		Tests: onLeases("TestRoundTripsOfACall"),
	},
	{
		Name:  "a phase that may have committed before its connection broke is told as not applied",
		Edits: []Edit{{In: "lease.(*transaction).runIn", Old: "t.lost, t.run.lost = undo, undo", New: "t.lost = nil"}},
		Tests: onLeases("TestProcedureAndNoDatabase$/^MySQL"),
	},
	{
		Name:  "a batch is executed under a lease, without a phase",
		Edits: []Edit{{In: "lease.(*Store).Begin", Old: "if opts.Batch {", New: "if opts.Batch && opts.ID.IsZero() {"}},
		Tests: in("lease", "TestBatchIsMisused"),
	},
	{
		Name:  "a first attempt that is none fails on the effect of an earlier run",
		Edits: []Edit{{In: "lease.(*Run).park", Old: "rec.State != store.StateAbsent {", New: "rec.State == store.StateDone {"}},
		Tests: in("lease", "TestFirstAttemptThatIsNone"),
	},
	{
		Name:  "a decision about an unknown outcome is not audited",
		Edits: []Edit{{In: "lease.(Resolution).once", Old: "c.Writes, err = how.audited(ops, id, rec, s)", New: "_, err = how.audited(ops, id, rec, s)"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestReleaseFreesAnUnknownKey"}},
	},
	{
		Name:  "a call whose key was voided is made again under the same key",
		Edits: []Edit{{In: "(Resolution).goesOn", Old: "case how.KeyVoided:", New: "case how.KeyVoided && how.Result != nil:"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestKeysResolve"}},
	},
	{
		Name:  "a call goes on after the service has forgotten its key",
		Edits: []Edit{{In: "lease.(*call).make", Old: "context.WithDeadline(called, until)", New: "context.WithDeadline(called, until.Add(time.Hour))"}},
		Tests: []Killer{{Package: "lease", Test: "TestACallEndsBeforeItsKeyIsForgotten"}},
	},
	{
		Name:  "a call is made after the service may forget its key",
		Edits: []Edit{{In: "lease.(*call).late", Old: "begun.Until.IsZero() || time.Now().Before(begun.Until)", New: "begun != nil"}},
		Tests: in("lease", "TestNoCallAfterItsKeyMayBeForgotten"),
	},
	{
		Name:  "a service that may have forgotten a call is believed that it never happens",
		Edits: []Edit{{In: "lease.(*call).find", Old: "found == Voided && forgotten(time.Now())", New: "found == Voided && forgotten(now)"}},
		Tests: in("lease", "TestNoAnswerOfACheckAfterTheServiceForgets"),
	},
	{
		Name:  "a question about a call has no end",
		Edits: []Edit{{In: "lease.(*call).find", Old: "if age > 0 {", New: "if age < 0 {"}},
		Tests: in("lease", "TestNoAnswerOfACheckAfterTheServiceForgets"),
	},
	{
		Name:  "an owner that stood still for longer than its lease makes a call",
		Edits: []Edit{{In: "held.(*Owner).Holds", Old: "o.isOverdue(h.ttl)", New: "o.isOverdue(h.ttl + h.maxDuration)"}},
		Tests: in("lease", "TestNoCallByAnOwnerThatStoodStill"),
	},
	{
		Name:  "a leased call does not say that it is sent at most once",
		Edits: []Edit{{In: "lease.(*call).make", Old: "ctx = atmostonce.Mark(ctx)", New: "_ = atmostonce.Mark"}},
		Tests: in("retry/retryhttp", "TestCallIsSentAtMostOnce"),
	},
	{
		Name:  "a retry under another rule does not take leased work over",
		Edits: []Edit{{In: "lease.(*Store).takesOver", Old: "fingerprint.Differ(rec.Fingerprint, asked)", New: "string(rec.Fingerprint) != string(asked) || fingerprint.Differ(nil, nil)"}},
		Tests: in("oncehttp", "TestLeasedWorkUnderAnotherCompare"),
	},
	{
		Name:  "a phase that panics ends without an error",
		Edits: []Edit{{In: "lease.(*Run).trace", Old: "err = errPanic", New: "err = nil"}},
		Tests: onLease("TestTracerSeesEachPhaseThatRuns"),
	},
	{
		Name:  "the function of a phase does not get the context of its span",
		Edits: []Edit{{In: "lease.(*Run).trace", Old: "ctx, end := r.s.cfg.Tracer.PhaseStart(ctx, p)", New: "_, end := r.s.cfg.Tracer.PhaseStart(ctx, p)"}},
		Tests: onLease("TestTracerSeesEachPhaseThatRuns"),
	},
	{
		Name:  "a call that is made again is called unknown",
		Edits: []Edit{{In: "lease.(*call).unanswered", Old: "!begun.repeats(time.Now())", New: "begun != nil"}},
		Tests: onLease("TestACallThatIsMadeAgainIsNotCalledUnknown"),
	},
}
