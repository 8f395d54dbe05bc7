package bugbank

// rpcMutants are bugs of package internal/rpc.
var rpcMutants = []Mutant{
	{
		Name:  "the Config of a nested interceptor has no effect",
		Edits: []Edit{{In: "(*Server).Nested", Old: `field != ""`, New: `field == "-"`}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestNestedInterceptors"}},
	},
	{
		Name:  "a message that is too large is asked for again",
		Edits: []Edit{{In: "rpc.problemOf", Old: `p.Retryable, p.Handler, p.Message = false, false, tooLarge`, New: `p.Message = tooLarge`}},
		Tests: in("internal/rpc", "TestMessageTooLargeForTheDatabase"),
	},
	{
		Name:  "calls find no transaction of a test",
		Edits: []Edit{{In: "rpc.Tx", Old: "ok && TxOf(ctx) == nil {", New: "ok && TxOf(ctx) != nil {"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestWithTx"}, {Module: "onceconnect", Test: "TestWithTx"}},
	},
	{
		Name:  "an RPC does not hear since when it is asked for",
		Edits: []Edit{{In: "(*Server).operation", Old: "wire.FirstSentOrKeyTime(c.Header(FirstSentHeader), key,", New: "wire.FirstSentOrKeyTime(nil, key,"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestStaleRetry"}},
	},
	{
		Name:  "an RPC of a long principal is refused",
		Edits: []Edit{{In: "rpc.(*Server).names", Old: "wire.Scope(c.Principal, c.Method)", New: `c.Principal + " " + c.Method`}},
		Tests: []Killer{{Module: "onceconnect", Test: "TestLongPrincipal"}},
	},
	{
		Name:  "the limit is not asked which RPCs are too large to be stored",
		Edits: []Edit{{In: "rpc.encode", Old: "len(a.Body)) > most {", New: "len(a.Body)) > 1<<20 {"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestMaxStored"}},
	},
	{
		Name:  "two spellings of a key are two keys",
		Edits: []Edit{{In: "(*Client).key", Old: "given && parsedKey(k) != key", New: "given && k != key"}},
		Tests: in("internal/rpc", "TestKeyInAnySpelling"),
	},
	{
		Name:  "an RPC has no name",
		Edits: []Edit{{In: "(*Server).operation", Old: "op.Name, op.Attempt.Trace = c.Method,", New: `op.Name, op.Attempt.Trace = "",`}},
		Tests: []Killer{{Module: "onceconnect", Test: "TestNameAndTrace"}},
	},
	{
		Name:  "a retry of gRPC itself is taken for the first attempt",
		Edits: []Edit{{In: "(*Call).attempt", Old: "before > 0", New: "before < 0"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestRetriesOfGRPC"}},
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
		Name:  "a refused undo has the error of the call that it undoes",
		Edits: []Edit{{In: "rpc.undoProblem", Old: "once.CodeOf(err) == once.CodeNoResult", New: "false"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestUndoOfAnAnswerThatIsNotStored"}, {Module: "onceconnect", Test: "TestUndoOfAnAnswerThatIsNotStored"}},
	},
	{
		Name:  "an undo over an RPC is refused by a quota",
		Edits: []Edit{{In: "rpc.(*Server).overQuota", Old: `|| s.Undoes[c.Method] != ""`, New: ""}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestQuotaAnswersResourceExhausted"}, {Module: "onceconnect", Test: "TestQuotaAnswersResourceExhausted"}},
	},
	{
		Name:  "RPCs do not count towards a quota before it counts again",
		Edits: []Edit{{In: "rpc.(*Server).addStored", Old: `op.Key != ""`, New: `op.Key == ""`}},
		Tests: []Killer{{Module: "onceconnect", Test: "TestQuotaAnswersResourceExhausted"}, {Module: "oncegrpc", Test: "TestQuotaAnswersResourceExhausted"}},
	},
	{
		Name:  "an RPC that a quota refuses does not say when to come again",
		Edits: []Edit{{In: "rpc.(*Server).overQuota", Old: "p.After = after", New: "_ = after"}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestQuotaAnswersResourceExhausted"}},
	},
	{
		Name:  "an RPC client comes back to a quota too early",
		Edits: []Edit{{In: "(*Fault).engineError", Old: "f.Code == ResourceExhausted && f.After > 0", New: "f.Code == ResourceExhausted && f.After < 0"}},
		Tests: in("internal/rpc", "TestJudgeEachCode"),
	},
}
