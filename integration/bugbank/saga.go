package bugbank

// sagaMutants are bugs of package saga.
var sagaMutants = []Mutant{
	{
		Name:  "the undo of a step does not name its events",
		Edits: []Edit{{In: "saga.(*run).undo", Old: "u.Events = slices.Concat(b.Events, own.Events())", New: "u.Events = slices.Concat(b.Events, nil)"}},
		Tests: console("TestTrailOfSteps"),
	},
	{
		Name:  "the console decides about a saga that has gone on",
		Edits: []Edit{{In: "saga.(*deciding).hasGoneOn", Old: "p.Fence != 0 && p.Fence != rec.Fence", New: "p.Fence != 0 && p.Fence > rec.Fence"}},
		Tests: console("TestTwoOperators"),
	},
	{
		Name:  "the turn is not stored before an undo at a service",
		Edits: []Edit{{In: "saga.(*run).durable", Old: "if r.turned {", New: "if r.n != nil {"}},
		Tests: onSaga("TestEverySchedule$/^ct_deduped.*"),
	},
	{
		Name: "a step that has failed is undone",
		Edits: []Edit{
			{In: "saga.(*run).compensate", Old: "if b.State != stateDone &&", New: "if b.State != stateFailed && b.State != stateDone &&"},
			{In: "saga.(*run).undoStep", Old: "case b.State != stateDone:", New: "case b.State != stateDone && b.State != stateFailed:"},
			{In: "saga.(*run).undo", Old: "st.undoTx(current.With(ctx, own), tx, b.Input, b.Result)", New: "st.undoTx(ctx, tx, b.Input, append([]byte(nil), or(string(b.Result), `\"s2 was done\"`)...))"},
			{In: "saga.(*run).failed", Old: "stateFailed, f, nil, nil", New: "stateFailed, f, nil, b.Call"},
		},
		Tests: onSaga("TestEverySchedule$/^tct_deduped.*"),
	},
	{
		Name:  "sagas are undone in the order in which they were done",
		Edits: []Edit{{In: "saga.(*run).compensate", Old: "for i := range slices.Backward(r.saved.Steps) {", New: "for i := range slices.All(r.saved.Steps) {"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped.*"),
	},
	{
		Name:  "a call of a saga is made without its intent",
		Edits: []Edit{{In: "saga.(*step).needsIntent", Old: "return s.isUndone() ||", New: "return s.isUndone() && s.pivot ||"}},
		Tests: onSaga("TestEverySchedule$/^tct_repeated.*"),
	},
	{
		Name:  "a pivot at a service is called without its intent",
		Edits: []Edit{{In: "saga.(*step).needsIntent", Old: "s.pivot ||", New: ""}},
		Tests: onSaga("TestEverySchedule$/^tct_undoless.*"),
	},
	{
		Name:  "a call is made before anything is stored of its saga",
		Edits: []Edit{{In: "saga.(*run).call", Old: "st.needsIntent() || !r.holds", New: "st.needsIntent()"}},
		Tests: onSaga("TestEverySchedule$/^c_undoless.*"),
	},
	{
		Name:  "a call that is under way is dropped at the turn",
		Edits: []Edit{{In: "saga.(*run).undoStep", Old: "case !b.Undo &&", New: "case b.State == stateCalling && !b.Pivot || !b.Undo &&"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped.*"),
	},
	{
		Name: "a node that was stopped writes under the fence of another one",
		Edits: []Edit{
			{In: "saga.(*node).takeOver", Old: "next := store.Record{", New: "own.Nonce = rec.Nonce\nnext := store.Record{"},
			{In: "saga.(*node).takeOver", Old: "Fence: rec.Fence + 1,", New: "Fence: rec.Fence,"},
			{In: "held.(*Owner).Under", Old: "c.Next.Fence = o.fence + 1", New: "c.Next.Fence = o.fence"},
		},
		Tests: onSaga("TestEverySchedule$/.*waits"),
	},
	{
		Name: "the path of a flow is not compared",
		Edits: []Edit{
			{In: "saga.(*run).begins", Old: `before != "" {`, New: `before == "none" {`},
			{In: "saga.(*run).forward", Old: `case unreached != "" &&`, New: `case unreached == "none" &&`},
		},
		Tests: onSaga("TestAnotherPathIsStuck"),
	},
	{
		Name:  "a flow may return before it has come to what was done",
		Edits: []Edit{{In: "saga.(*run).forward", Old: `case unreached != "" &&`, New: `case unreached == "none" &&`}},
		Tests: onSaga("TestAnotherPathIsStuck"),
	},
	{
		Name:  "a lost commit of a step counts as done",
		Edits: []Edit{{In: "saga.(*transaction).untilCommitted", Old: "case applied:", New: "case applied || kind == store.KindLost && e == nil:"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped.*"),
	},
	{
		Name:  "a step whose commit was lost is not looked for",
		Edits: []Edit{{In: "saga.(*transaction).untilCommitted", Old: "if ofCommit && kind == store.KindTaken || lost != nil {", New: "if ofCommit && kind == store.KindTaken && lost == nil {"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped.*"),
	},
	{
		Name:  "a void key gives a call new tries",
		Edits: []Edit{{In: "saga.(*run).ask", Old: "c.Voided++", New: "c.Voided++\nr.saved.Tries = 0"}},
		Tests: onSaga("TestAVoidKeyDoesNotResetTries"),
	},
	{
		Name:  "a void key is used again by a saga",
		Edits: []Edit{{In: "saga.(*run).ask", Old: "c.Voided++", New: ""}},
		Tests: onSaga("TestEverySchedule$/^tct_checked.*"),
	},
	{
		Name:  "a saga is undone behind its pivot",
		Edits: []Edit{{In: "saga.(*run).turn", Old: `pivot != "" {`, New: `pivot == "none" {`}},
		Tests: onSaga("TestPivotAllowsNoUndo"),
	},
	{
		Name:  "a pivot that was under way at the turn is undone",
		Edits: []Edit{{In: "saga.(*run).undoStep", Old: "case b.Pivot: // it was under way when the saga turned: there is no turn behind it", New: "case b.Pivot && r.n == nil:"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped,_pivot_2.*"),
	},
	{
		Name:  "the no of a step is not stored",
		Edits: []Edit{{In: "saga.(*run).failed", Old: "r.saved, r.said = next, true", New: "_ = next"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped,_1_says_no_once,_fallback.*"),
	},
	{
		Name:  "a call that is made again sends what the flow computes now",
		Edits: []Edit{{In: "saga.(*run).take", Old: "b = r.saved.Steps[i]", New: "b = r.saved.Steps[i]\nb.Input = in"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped.*"),
	},
	{
		Name:  "the undo of a call has the key of the call",
		Edits: []Edit{{In: "saga.(*run).undoKey", Old: `"undo\n"+b.full()`, New: "b.full()"}},
		Tests: onSaga("TestEverySchedule$/^ct_deduped.*"),
	},
	{
		Name:  "that a step is undone is not in the commit of its undo",
		Edits: []Edit{{In: "saga.(*run).undo", Old: "u.State = stateUndone", New: "u.State = stateDone"}},
		Tests: onSaga("TestEverySchedule$/^tct_deduped.*"),
	},
	{
		Name:  "not yet counts as a failed try",
		Edits: []Edit{{In: "saga.(*run).decide", Old: "return r.park(ctx, again.after)", New: "r.saved.Tries++\nreturn r.again(ctx, &failedError{begun{Name: \"x\"}, 4, err})"}},
		Tests: onSaga("TestWakeEndsAWait"),
	},
	{
		Name:  "another input goes on with a saga",
		Edits: []Edit{{In: "saga.(*Handle).compare", Old: "len(rec.Fingerprint) > 0 &&", New: "len(rec.Fingerprint) == 0 &&"}},
		Tests: onSaga("TestStartInTheCallersTransaction"),
	},
	{
		Name:  "a step that the program does not have is not undone and not missed",
		Edits: []Edit{{In: "saga.(*run).undoStep", Old: "case !b.Undo &&", New: "case st == nil || !b.Undo &&"}},
		Tests: onSaga("TestUndoNeedsItsStep"),
	},
	{
		Name:  "a saga keeps the user's data behind its end",
		Edits: []Edit{{In: "saga.(saved).ended", Old: "s.Steps[i].Input, s.Steps[i].Result, s.Steps[i].Call = nil, nil, nil", New: "s.Steps[i].Call = nil"}},
		Tests: onSaga("TestNoDataBehindTheEnd"),
	},
	{
		Name:  "a node that ends does not let go of its sagas",
		Edits: []Edit{{In: "saga.(*run).begins", Old: "case r.n.isStopping():", New: "case r.n == nil:"}},
		Tests: onSaga("TestDrainReleasesSagas"),
	},
	{
		Name:  "a node that ends goes on with undos",
		Edits: []Edit{{In: "saga.(*run).compensate", Old: "if r.n.isStopping() {", New: "if r.n == nil {"}},
		Tests: onSaga("TestDrainOfUndos"),
	},
	{
		Name:  "a runner is run a second time",
		Edits: []Edit{{In: "saga.(*Runner).Run", Old: "if r.ran.Swap(true) {", New: "if r.ran.Swap(true) && r.node == nil {"}},
		Tests: onSaga("TestDrainReleasesSagas"),
	},
	{
		Name:  "a runner does not look for nodes that have died",
		Edits: []Edit{{In: "saga.(*watch).look", Old: "if lists {", New: "if lists && w.r == nil {"}},
		Tests: onSaga("TestNodeDies"),
	},
	{
		Name:  "a runner seldom looks for nodes that have died",
		Edits: []Edit{{In: "saga.(*Runner).Run", Old: "time.Since(listed) >= r.cfg.TTL", New: "time.Since(listed) >= 3*r.cfg.TTL"}},
		Tests: onSaga("TestNodeDies"),
	},
	{
		Name:  "a look for nodes that have died takes sagas that wait",
		Edits: []Edit{{In: "saga.eachIdle", Old: "Due: true, State: state}", New: "Due: true}"}},
		Tests: onSaga("TestWakeEndsAWait"),
	},
	{
		Name:  "a full node looks again behind each saga that ends",
		Edits: []Edit{{In: "saga.(*Runner).Run", Old: "w.gather(ctx, timer.C)", New: ""}},
		Tests: onSaga("TestFullNodeGathers"),
	},
	{
		Name:  "an undo that says no is tried again",
		Edits: []Edit{{In: "saga.(*run).undoFailed", Old: "failureIn(err) != nil &&", New: "failureIn(err) != nil && r.n == nil &&"}},
		Tests: onSaga("TestUndosAreSeen"),
	},
	{
		Name:  "a runner looks for sagas of the oldest tenant only",
		Edits: []Edit{{In: "saga.(*dueTable).look", Old: "for _, id := range oldest {", New: "list = nil\nfor _, id := range oldest {"}},
		Tests: onSagas("TestTenantsInTurn$/^SQLite$"),
	},
	{
		Name:  "a wake while a node works on the saga is lost",
		Edits: []Edit{{In: "saga.newDueTable", Old: "UPSERT(scope, KEY) due_at = NOW", New: "UPSERT(scope, KEY) due_at = NEW(due_at)"}},
		Tests: onSagas("TestWokenSagaGoesOn$/^SQLite$"),
	},
	{
		Name:  "a wake while the starter runs its saga for the first time is lost",
		Edits: []Edit{{In: "saga.(*run).change", Old: "c.Writes = r.n.due.wait(r.id, r.def.name, e.after)", New: "c.Writes = append(r.n.due.drop(r.id), r.n.due.wait(r.id, r.def.name, e.after)...)"}},
		Tests: onSagas("TestWakeInTheFirstRun$/^SQLite$"),
	},
	{
		Name:  "an open transaction that wakes a saga stops all nodes",
		Edits: []Edit{{In: "saga.drains", Old: "for update of f skip locked", New: "for update of f"}},
		Tests: onSagas("TestOpenWakeStopsNoOther$/^pgxstore$"),
	},
	{
		Name:  "a starter waits for the transaction that wakes its saga",
		Edits: []Edit{{In: "saga.free", Old: " limit 1 FOR UPDATE SKIP LOCKED)", New: " limit 1 FOR UPDATE)"}},
		Tests: onSagas("TestOpenWakeStopsNoOther$/^pgxstore$"),
	},
	{
		Name: "a saga that is woken while it runs takes the room of another one",
		Edits: []Edit{
			{In: "saga.(*watch).look", Old: "w.r.due.look(ctx, w.r.cfg.Concurrency, free)", New: "w.r.due.look(ctx, free, free)"},
			{In: "saga.(*watch).apart", Old: "err := w.r.due.push(ctx, s.ID); err != nil", New: "err != nil"},
		},
		Tests: onSagas("TestWokenSagaKeepsNoOtherWaiting$/^SQLite$"),
	},
	{
		Name:  "a saga that is woken while it runs is counted as due until it ends",
		Edits: []Edit{{In: "saga.(*watch).apart", Old: "err := w.r.due.push(ctx, s.ID); err != nil", New: "err != nil"}},
		Tests: onSagas("TestWokenSagaKeepsNoOtherWaiting$/^SQLite$"),
	},
	{
		Name:  "a node forgets a saga that a person has just decided about",
		Edits: []Edit{{In: "saga.(*dueTable).forget", Old: "SQL: t.deleteAt, Args: []any{id.Scope, id.Key, dialect.StoredTime(t.db.Dialect(), at)}", New: "SQL: t.delete, Args: []any{id.Scope, id.Key}"}},
		Tests: onSagas("TestDecisionBehindALook$/^SQLite$"),
	},
	{
		Name:  "the starter of a saga that was woken waits until its time",
		Edits: []Edit{{In: "saga.(*dueTable).over", Old: "!at.IsZero()", New: "at.IsZero() && t == nil"}},
		Tests: onSagas("TestWokenSagaGoesOn$/^SQLite$"),
	},
	{
		Name:  "a saga waits without a row about when",
		Edits: []Edit{{In: "saga.(*run).change", Old: "c.Writes = r.n.due.wait(r.id, r.def.name, e.after)", New: ""}},
		Tests: onSagas("TestAnyNode$/^SQLite$"),
	},
	{
		Name:  "sagas that were taken stay in the table of those that wait",
		Edits: []Edit{{In: "saga.(*node).takeMany", Old: "n.due.drained()", New: "store.Statement{SQL: \"select t.scope from taken t\"}"}},
		Tests: onSagas("TestAnyNode$/^(pgxstore|SQLite)$"),
	},
	{
		Name:  "sagas that are taken together lose the trace of their start",
		Edits: []Edit{{In: "saga.(*node).takeMany", Old: "held.Claim{Trace: e.Trace}", New: "held.Claim{}"}},
		Tests: onSagas("TestTakenSagasKeepTheirTrace$/^SQLite$"),
	},
	{
		Name:  "what steps are given is stored in plain text",
		Edits: []Edit{{In: "saga.(*run).change", Old: "s, bad := s.seal(r.n.cfg.Encrypter, r.id)", New: "s, bad := s.seal(nil, r.id)"}},
		Tests: onSaga("TestSealedRecordHasNoPlainText"),
	},
	{
		Name:  "the result of a saga is stored in plain text",
		Edits: []Edit{{In: "saga.sealResult", Old: "r.Body = body", New: "_ = body"}, {In: "saga.openResult", Old: "s.Sealed == nil", New: "s.Sealed == nil || e != nil"}},
		Tests: onSaga("TestSealedRecordHasNoPlainText"),
	},
	{
		Name:  "what a failure says is stored in plain text",
		Edits: []Edit{{In: "saga.(saved).seal", Old: "if b.Failure != nil {", New: "if b.Failure == nil {"}},
		Tests: onSaga("TestSealedRecordHasNoPlainText"),
	},
	{
		Name:  "the secrets of a saga open in another one",
		Edits: []Edit{{In: "saga.label", Old: "seal.Label(id.Scope, id.Key)", New: "seal.Label(id.Scope, \"\")"}},
		Tests: onSaga("TestSealedElsewhere"),
	},
	{
		Name:  "a node without the key takes a saga over",
		Edits: []Edit{{In: "saga.(*node).read", Old: "s, err = s.open(n.cfg.Encrypter, id)", New: "s, _ = s.open(n.cfg.Encrypter, id)"}},
		Tests: onSaga("TestSealedElsewhere"),
	},
	{
		Name:  "a person stores the value of a call in plain text",
		Edits: []Edit{{In: "saga.(*deciding).force", Old: "case p.Value != nil && s.Sealed != nil:", New: "case p.Value != nil && p.ops == nil:"}},
		Tests: onSaga("TestSealedDecisions"),
	},
	{
		Name:  "the data of a saga is dropped at its end although it is to be kept",
		Edits: []Edit{{In: "saga.(*run).change", Old: "!r.n.cfg.KeepData", New: "r.n != nil"}},
		Tests: onSaga("TestSealedRecordHasNoPlainText"),
	},
	{
		Name:  "a preview of a decision about a saga is written",
		Edits: []Edit{{In: "saga.(*deciding).once", Old: "!changes || p.Preview", New: "!changes"}},
		Tests: onSagaCommands(),
	},
	{
		Name:  "a decision about a saga is not audited",
		Edits: []Edit{{In: "saga.(*deciding).once", Old: "c.Writes = append(c.Writes, entry...)", New: "_ = entry"}},
		Tests: onSagaCommands(),
	},
	{
		Name:  "a step that is done can be forced",
		Edits: []Edit{{In: "saga.(*deciding).force", Old: "s.Steps[i].State != stateCalling || s.Steps[i].Call == nil", New: "p.ops == nil"}},
		Tests: onSagaCommands(),
	},
	{
		Name:  "a saga that was undone counts as completed",
		Edits: []Edit{{In: "saga.(*run).wrote", Old: "next.Result.Kind == store.ResultFailure", New: "next.Result.Kind == store.ResultFailure && e.Turn == nil"}},
		Tests: onSaga("TestEventsOfASagaAndItsSteps$/^compensated$"),
	},
	{
		Name:  "a turn is told with every commit behind it",
		Edits: []Edit{{In: "saga.(*run).wrote", Old: "e.Turn != nil && !r.turned", New: "e.Turn != nil"}},
		Tests: onSaga("TestEventsOfASagaAndItsSteps$/^stuck$"),
	},
	{
		Name:  "each key of a step is a series",
		Edits: []Edit{{In: "saga.(metrics).Observe", Old: "instrument.SagaRetries, e.Saga, e.Step", New: "instrument.SagaRetries, e.Saga, fullName(e.Step, e.StepKey)"}},
		Tests: onSaga("TestEventsOfASagaAndItsSteps$/^completed$"),
	},
	{
		Name:  "sagas that wait until a later time are due",
		Edits: []Edit{{In: "saga.countDue", Old: "where name = ? and due_at <= NOW", New: "where name = ?"}},
		Tests: onSagas("TestGaugesCountDueAndStuckSagas$/^SQLite$"),
	},
	{
		Name:  "the first saga that is stuck is no increase",
		Edits: []Edit{{In: "saga.(metrics).Observe", Old: "EventCompleted, EventCompensated, EventStuck} {", New: "EventCompleted, EventCompensated} {"}},
		Tests: onSaga("TestEventsOfASagaAndItsSteps$/^completed$"),
	},
	{
		Name: "what was decrypted under an old key is stored as it was",
		Edits: []Edit{
			{In: "saga.(saved).open", Old: "s.Sealed, s.Input = nil, x.Input", New: "s.Input = x.Input"},
			{In: "saga.(saved).seal", Old: "if e == nil {", New: "if e == nil || s.Sealed != nil {"},
		},
		Tests: onSaga("TestKeyRotation"),
	},
	{
		Name:  "a failure whose detail is no JSON cannot be stored",
		Edits: []Edit{{In: "saga.failureIn", Old: "len(f.Detail) == 0", New: "f.Code != \"\""}},
		Tests: onSaga("TestDetailThatIsNoJSON"),
	},
	{
		Name:  "a call without an intent is made behind a no that is not stored",
		Edits: []Edit{{In: "saga.(*run).call", Old: "|| r.said {", New: "{"}},
		Tests: onSaga("TestNoIsStoredBeforeACall"),
	},
	{
		Name:  "a step that ends its goroutine takes its transaction with it",
		Edits: []Edit{{In: "saga.protect", Old: "go func() {", New: "func() {"}},
		Tests: onSaga("TestGoexitIsAFailure"),
	},
	{
		Name:  "a decision is done to whatever is stuck now",
		Edits: []Edit{{In: "saga.(*deciding).hasGoneOn", Old: "isRepeatable :=", New: "isRepeatable := len(p.about) > 0 ||"}},
		Tests: onSaga("TestDecisionIsAboutOneCall"),
	},
	{
		Name:  "a decision that names a call is done to another one",
		Edits: []Edit{{In: "saga.(*deciding).force", Old: `p.Call != "" && p.Call != now {`, New: `p.Call != "" && p.Call == "none" && p.Call != now {`}},
		Tests: onSaga("TestDecisionIsAboutOneCall$/^named$"),
	},
	{
		Name:  "the step of a saga does not get the context of its span",
		Edits: []Edit{{In: "saga.(*run).traced", Old: "ctx, end := r.n.cfg.Tracer.SagaSpan", New: "_, end := r.n.cfg.Tracer.SagaSpan"}},
		Tests: onSaga("TestTracerSeesEachRun"),
	},
	{
		Name:  "a saga that was taken over has lost the trace of its start",
		Edits: []Edit{{In: "saga.(*node).takeOver", Old: "held.Claim{Trace: rec.Trace}", New: "held.Claim{}"}},
		Tests: onSaga("TestTracerSeesNodes"),
	},
	{
		Name:  "a not yet permits a call for ever, also after its service has forgotten the key",
		Edits: []Edit{{In: "saga.(*contract).permitsOne", Old: "(!c.Repeat || !c.Until.IsZero())", New: "!c.Repeat"}},
		Tests: onSaga("TestLifeOfAKeyAfterNotYet"),
	},
	{
		Name:  "a not yet behind the turn permits no further attempt",
		Edits: []Edit{{In: "saga.(*run).redo", Old: "case errors.As(err, new(*againError)):\nr.permit(&b)", New: "case errors.As(err, new(*againError)):"}},
		Tests: onSaga("TestLifeOfAKeyAfterNotYet"),
	},
	{
		Name:  "a saga makes a call after the service may forget its key",
		Edits: []Edit{{In: "saga.(*run).late", Old: "b.Call.Until.IsZero() || time.Now().Before(b.Call.Until)", New: "b.Call.Until.IsZero() || !again"}},
		Tests: onSaga("TestNoCallAfterItsKeyMayBeForgotten"),
	},
	{
		Name:  "a saga makes a call again after the service may forget its key",
		Edits: []Edit{{In: "saga.(*run).late", Old: "return errLate\n", New: "return nil\n"}},
		Tests: onSaga("TestNoRepetitionAfterItsKeyMayBeForgotten"),
	},
	{
		Name:  "a client in a call of a saga can repeat its request after the service may forget the key",
		Edits: []Edit{{In: "saga.(*run).attempt", Old: "context.WithDeadline(ctx, b.Call.Until)", New: "context.WithDeadline(ctx, b.Call.Until.Add(time.Hour))"}},
		Tests: onSaga("TestNoCallAfterItsKeyMayBeForgotten"),
	},
	{
		Name:  "a node that stood still for longer than its lease makes a call of a saga",
		Edits: []Edit{{In: "saga.(*run).late", Old: "!r.own.Holds(ctx)", New: "r.own.HasEnded()"}},
		Tests: onSaga("TestNoCallByANodeThatStoodStill"),
	},
	{
		Name:  "a call behind the turn that was not sent counts as sent",
		Edits: []Edit{{In: "saga.(*run).redo", Old: "case lease.IsNotSent(err) && !again:\nr.permit(&b)", New: "case lease.IsNotSent(err) && !again:"}},
		Tests: onSaga("TestNoCallAfterItsKeyMayBeForgotten"),
	},
	{
		Name:  "the life of a key begins before a not yet",
		Edits: []Edit{{In: "saga.(*run).reintend", Old: "c.Voided = b.Call.Voided", New: "c.Voided, c.Until = b.Call.Voided, b.Call.Until"}},
		Tests: onSaga("TestLifeOfAKeyAfterNotYet"),
	},
	{
		Name:  "a node that ends waits for sagas that begin meanwhile",
		Edits: []Edit{{In: "saga.(*Runner).work", Old: "if r.isStopping() {", New: "if r.isStopping() && r.node == nil {"}},
		Tests: onSaga("TestDoWhileRunEnds"),
	},
	{
		Name:  "calls of one definition that hang take all places",
		Edits: []Edit{{In: "saga.(*watch).reserve", Old: "len(w.r.defs) > 1 &&", New: "w.r == nil &&"}},
		Tests: onSaga("TestHangingCallsLeavePlaces"),
	},
	{
		Name:  "calls of one tenant that hang take all places",
		Edits: []Edit{{In: "saga.(*watch).reserve", Old: `idOf(s.ID).Tenant != "" &&`, New: "w.r == nil &&"}},
		Tests: onSaga("TestHangingCallsLeavePlaces"),
	},
	{
		Name:  "a step that ignores its context keeps its place",
		Edits: []Edit{{In: "saga.(*watch).used", Old: "return n - min(hanging, (w.r.cfg.Concurrency+1)/2)", New: "return n"}},
		Tests: onSaga("TestStepsThatIgnoreTheirContext"),
	},
	{
		Name:  "the steps that ignore their context have no bound",
		Edits: []Edit{{In: "saga.(*watch).used", Old: "min(hanging, (w.r.cfg.Concurrency+1)/2)", New: "hanging"}},
		Tests: onSaga("TestStepsThatIgnoreTheirContext"),
	},
	{
		Name:  "a saga that has hung counts as hanging for ever",
		Edits: []Edit{{In: "saga.(*run).protect", Old: "defer end()", New: "_ = end"}},
		Tests: onSaga("TestStepsThatIgnoreTheirContext"),
	},
	{
		Name:  "sagas of a dead node take all places",
		Edits: []Edit{{In: "saga.(*watch).revive", Old: "(w.r.cfg.Concurrency+w.looks%2)/2 -", New: "w.r.cfg.Concurrency -"}},
		Tests: onSaga("TestSagasOfADeadNode"),
	},
	{
		Name:  "the sagas of a dead node have no turns",
		Edits: []Edit{{In: "saga.(*watch).list", Old: "return turns[a.ID] - turns[b.ID]", New: "return 0"}},
		Tests: onSaga("TestSagasOfADeadNode"),
	},
	{
		Name:  "a saga that is restored calls under a new key",
		Edits: []Edit{{In: "saga.(*run).key", Old: "return lease.Key(r.id.Scope, r.id.Key, b.full(), voided)", New: "return lease.Key(r.id.Scope, r.id.Key, b.full()+time.Now().String(), voided)"}},
		Tests: restored("TestRestoredSagas"),
	},
}
