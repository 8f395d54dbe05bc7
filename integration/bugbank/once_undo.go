package bugbank

// onceUndoMutants are bugs of Undo and Void in the root package.
var onceUndoMutants = []Mutant{
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
}
