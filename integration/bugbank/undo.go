package bugbank

// undoMutants break what a participant in the saga of another service promises: see once.Undo.
var undoMutants = []Mutant{
	{
		Name: "the undo of what was not executed leaves nothing behind",
		Edits: []Edit{{
			In:  "once.(*Engine).void",
			Old: "rec, _, err := e.Exec(ctx, op, func(context.Context, TX) (Answer, error) { return Answer{Result: voided.Result()}, nil })",
			New: "rec, err := e.ReadRecord(ctx, op)\nif rec.State == store.StateAbsent {\n\trec.Result = voided.Result()\n}",
		}},
		Tests: in("", "TestUndoBeforeItWasDone"),
	},
	{
		Name:  "an undo does not get the value of what it undoes",
		Edits: []Edit{{In: "once.Undo", Old: "undo(ctx, tx, value)", New: "undo(ctx, tx, *new(T))"}},
		Tests: in("", "TestUndoOfWhatWasExecuted"),
	},
	{
		Name: "a forward that comes after its undo is told that it was executed",
		Edits: []Edit{{
			In:  "once.decodeInto",
			Old: "return final, json.Unmarshal(res.Body, final)",
			New: "if err = json.Unmarshal(res.Body, final); final.Code == FailureUndone {\n\tfinal = nil\n}\nreturn final, err",
		}},
		Tests: in("", "TestUndoBeforeItWasDone"),
	},
	{
		Name:  "the key of an undo is that of the forward",
		Edits: []Edit{{In: "once.(*Operation).undo", Old: "own.Key = keyname.Undo(op.Key)", New: "_ = keyname.Undo"}},
		Tests: in("", "TestUndoOfWhatWasExecuted"),
	},
	{
		Name:  "an undo is kept as long as the engine says, and not as long as the forward",
		Edits: []Edit{{In: "once.(*Operation).undo", Old: "own.Attempt.FirstSent = time.Time{}", New: "own.Attempt.FirstSent, own.Retain = time.Time{}, 0"}},
		Tests: in("", "TestUndoLastsAsLongAsTheForward"),
	},
	{
		Name:  "the refusal of a late forward is kept as long as the engine says",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "op.Attempt.Number = 0", New: "op.Attempt.Number, op.Retain = 0, 0"}},
		Tests: in("", "TestUndoLastsAsLongAsTheForward"),
	},
	{
		Name:  "an undo of what may be forgotten says that there was nothing",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "op.Attempt.Number = 0", New: "op.Attempt = Attempt{}"}},
		Tests: in("", "TestUndoLastsAsLongAsTheForward"),
	},
	{
		Name:  "an undo does not compare what was asked",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "op.Attempt.Number = 0", New: "op.Attempt.Number, op.Fingerprint = 0, Fingerprint{}"}},
		Tests: in("", "TestUndoOfAnother"),
	},
	{
		Name:  "an undo takes the result of another operation for its own",
		Edits: []Edit{{In: "once.Undo", Old: "err == nil && !r.Value.Undone", New: "err != nil && !r.Value.Undone"}},
		Tests: in("", "TestUndoOfAnother"),
	},
	{
		Name:  "what has failed is undone",
		Edits: []Edit{{In: "once.Undo", Old: "rec.Result.Kind == store.ResultFailure", New: "voided.Is(rec.Result)"}},
		Tests: in("", "TestUndoOfAFailure"),
	},
	{
		Name:  "work under a lease is voided behind its first phase",
		Edits: []Edit{{In: "once.(*Engine).void", Old: "err != nil || e.irrevocable", New: "err != nil"}},
		Tests: in("", "TestUndoIsRefused"),
	},
	{
		Name:  "a request that comes after its undo is answered with success",
		Edits: []Edit{{In: "oncehttp.(*Exchange).sendStored", Old: "x.WriteProblem(x.plan.problem(problemUndone))", New: "x.write(http.StatusNoContent, nil)"}},
		Tests: in("oncehttp", "TestUndoRouteComesFirst"),
	},
	{
		Name:  "a request to undo has the key of what it undoes",
		Edits: []Edit{{In: "oncehttp.(*Exchange).ownKey", Old: "return keyname.Undo(x.key)", New: "return keyname.Undo(x.key)[:len(x.key)]"}},
		Tests: in("oncehttp", "TestUndoRouteOfWhatWasExecuted"),
	},
	{
		Name:  "a request to undo looks on its own route for what it undoes",
		Edits: []Edit{{In: "oncehttp.(*Exchange).names", Old: "route = x.plan.Undoes", New: "_ = route"}},
		Tests: in("oncehttp", "TestUndoRouteOfWhatWasExecuted"),
	},
	{
		Name:  "a request undoes an answer that was a no",
		Edits: []Edit{{In: "oncehttp.(*Exchange).findUndone", Old: "case res.RolledBack, res.Kind == store.ResultFailure, res.Status >= 400:", New: "case res.Kind == store.ResultFailure:"}},
		Tests: in("oncehttp", "TestUndoRouteOfARefusal"),
	},
	{
		Name:  "a request undoes what it knows no answer of",
		Edits: []Edit{{In: "oncehttp.(*Exchange).findUndone", Old: "case res.Kind != store.ResultValue:", New: "case res.Kind > store.ResultOmitted:"}},
		Tests: in("oncehttp", "TestUndoRouteOfARefusal"),
	},
	{
		Name:  "an undo that is replayed does not say that it is one",
		Edits: []Edit{{In: "oncehttp.(*lines).addOutcome", Old: "case wire.StatusStored, wire.StatusOmitted, wire.StatusReplayed:", New: "case wire.StatusStored, wire.StatusOmitted:"}},
		Tests: in("oncehttp", "TestUndoRouteOfWhatWasExecuted"),
	},
	{
		Name:  "any key of a request names what it undoes",
		Edits: []Edit{{In: "oncehttp.compile", Old: "p.preset.KeyHeaders, p.Key, p.FormField, p.Optional = []string{wire.UndoesHeader}, nil, \"\", false", New: "p.preset.KeyHeaders = append([]string{wire.UndoesHeader}, p.preset.KeyHeaders...)"}},
		Tests: in("oncehttp", "TestUndoRouteNeedsItsHeader"),
	},
	{
		Name:  "a call to undo has the key of what it undoes",
		Edits: []Edit{{In: "rpc.(*Server).names", Old: "keyname.Undo(key)", New: "keyname.Undo(key)[:len(key)]"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestUndoOfACall"}},
	},
	{
		Name:  "a call that comes after its undo has a result that was not kept",
		Edits: []Edit{{In: "rpc.(*Server).Serve", Old: "case voided.Is(rec.Result):", New: "case voided.Is(rec.Result) && p != nil:"}},
		Tests: []Killer{{Module: "onceconnect", Test: "TestUndoOfACall"}},
	},
	{
		Name:  "a call undoes an answer that was a no",
		Edits: []Edit{{In: "rpc.(*Server).findUndone", Old: "rec.Result.Kind == store.ResultFailure", New: "voided.Is(rec.Result)"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestUndoOfACallUnderWay"}},
	},
	{
		Name: "the second bank takes back what a request says, also if it was never made",
		Edits: []Edit{{In: "oncehttp.(*Route).Read", Old: `return x, rt.plan.Undoes == "" || op.Key == "" || x.findUndone()`, New: `x.undoes = &store.Result{Status: 201, Body: x.body.memory}
return x, true`}},
		Tests: in("oncehttp", "TestUndoRouteComesFirst"),
	},
}
