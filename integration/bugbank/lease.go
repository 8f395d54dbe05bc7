package bugbank

// leaseMutants break the rules of leased work: see DESIGN.md.
var leaseMutants = []Mutant{
	{
		Name:  "the writes of a batch commit without its phase",
		Edits: []Edit{{In: "lease.(*Run).write", Old: "r.saved = next", New: "_ = next"}},
		Tests: in("lease", "TestPhaseThatIsABatch"),
	},
	{
		Name:  "a batch that may yet be applied is told as not applied",
		Edits: []Edit{{In: "held.(*Owner).Swap", Old: "c.Expect.Fence == 0:", New: "c.Expect.Fence < 0:"}},
		Tests: in("lease", "TestEveryTwoPointsFail"),
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
		Name:  "a phase does not raise the fence",
		Edits: []Edit{{In: "held.(*Owner).Under", Old: "c.Next.Fence = o.fence + 1", New: "c.Next.Fence = o.fence"}},
		Tests: onLease("TestProperty"),
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
		Name:  "a lost phase takes what another owner has stored for its own",
		Edits: []Edit{{In: "held.(*Owner).IsApplied", Old: "bytes.Equal(rec.Nonce, o.Nonce)", New: "bytes.Equal(rec.Nonce, rec.Nonce)"}},
		Tests: onLease("TestPhaseOfAnotherOwner"),
	},
	{
		Name:  "a write takes what another owner has stored for its own",
		Edits: []Edit{{In: "held.isOwn", Old: "bytes.Equal(rec.Nonce, c.Next.Nonce)", New: "bytes.Equal(rec.Nonce, rec.Nonce)"}},
		Tests: onLease("TestProperty"),
	},
	{
		Name:  "a call is made before its intent is stored",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "switch err := r.swap(ctx, r.running(next)); {", New: "switch err := error(nil); {"}},
		Tests: onLease("TestProperty"),
	},
	{
		Name:  "that a call may be made again is not stored",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "Repeat: c.policy.repeats(),", New: ""}},
		Tests: onLease("TestFailedCall"),
	},
	{
		Name:  "what is said now counts, and not what was said when the call was made",
		Edits: []Edit{{In: "lease.(*intent).repeats", Old: "c.Repeat &&", New: "c.Phase != \"\" &&"}},
		Tests: onLease("TestProperty"),
	},
	{
		Name:  "a service that forgets keys is asked again for ever",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "life > 0 {", New: "life < 0 {"}},
		Tests: onLease("TestFailedCall"),
	},
	{
		Name:  "a call that the service does not know is made again",
		Edits: []Edit{{In: "lease.(*call).find", Old: "case found == Voided:", New: "case found != Happened:"}},
		Tests: onLease("TestProperty"),
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
		Tests: onLease("TestProperty"),
	},
	{
		Name: "work whose outcome is unknown runs again by itself",
		Edits: []Edit{
			{In: "lease.(*Store).takesOver", Old: "&& (reconciles(ctx) || s.asks(rec))", New: ""},
			{In: "lease.(*Run).takeOver", Old: "!saved.Call.checks(time.Now())", New: "saved.Call == nil"},
		},
		Tests: onLease("TestProperty"),
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
		Name:  "an owner that has lost its lease goes on",
		Edits: []Edit{{In: "held.(*Owner).missed", Old: "return o.fence == h.Fence && o.writing == 0 && !o.closed", New: "return false"}},
		Tests: onLease("TestTakenOverInTheSameProcess"),
	},
	{
		Name:  "a phase that was left open keeps the work for as long as its process lives",
		Edits: []Edit{{In: "held.(*Owner).Adopt", Old: "|| o.closed ", New: ""}},
		Tests: onLease("TestPhaseThatIsLeftOpen"),
	},
	{
		Name: "a run is not told that another engine of its process has its work",
		Edits: []Edit{
			{In: "held.ownedBy", Old: "owned{h.ID, string(h.Nonce)}", New: `owned{h.ID, ""}`},
		},
		Tests: onLease("TestTakenOverInTheSameProcess"),
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
		Name:  "a publisher that ends its goroutine has delivered",
		Edits: []Edit{{In: "outbox.(*Relay).answer", Old: "errs := all(errors.New(\"Publish has ended its goroutine (runtime.Goexit). Try: return an error\"))", New: "var errs []error"}},
		Tests: in("outbox", "TestPublisherEndsItsGoroutine"),
	},
	{
		Name:  "a handler that ends its goroutine has applied its messages",
		Edits: []Edit{{In: "consume.(*Pool).apply", Old: "results[i].Err = errGoexit", New: "_ = i"}},
		Tests: in("internal/consume", "TestHandlerEndsItsGoroutine"),
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
}

func onLease(test string) []Killer { return in("lease", test) }
