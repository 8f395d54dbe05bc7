package bugbank

// lazyMutants make contexts too early, too late or not at all.
var lazyMutants = []Mutant{
	{
		Name:  "what is derived from a lazy context costs a goroutine",
		Edits: []Edit{{In: "(*Context).Value", Old: "v != nil || m != unused {", New: "v != nil && m == unused {"}},
		Tests: in("internal/base/lazy", "TestStartsNothing"),
	},
	{
		Name: "a lazy context that was made twice stays in its parent",
		Edits: []Edit{{In: "(*Context).make", Old: `m.cancel(nil)
return`, New: "return"}},
		Tests: in("internal/base/lazy", "TestCancelFreesAll"),
	},
	{
		Name:  "a lazy context forgets the time as long as no goroutine waits",
		Edits: []Edit{{In: "(*Context).Err", Old: "&& !c.Until.Over()", New: ""}},
		Tests: in("internal/base/lazy", "TestIsAsMadeAtOnce"),
	},
	{
		Name:  "a lazy context that is cancelled forgets why its parent has ended",
		Edits: []Edit{{In: "(*Context).Cancel", Old: "cause == nil && c.Parent.Err() == nil &&", New: "cause == nil &&"}},
		Tests: in("internal/base/lazy", "TestIsAsMadeAtOnce"),
	},
	{
		Name: "the body of an answer that was in time is cut",
		Edits: []Edit{{In: "(*sending).inTime", Old: `s.limit.Store(int64(lazy.Never))
return true`, New: "return true"}},
		Tests: in("retry/retryhttp", "TestSendingOfWhoDoesNotLook"),
	},
	{
		Name:  "an attempt that no goroutine has waited for is never late",
		Edits: []Edit{{In: "(*sending).look", Old: "if left > 0 && !waits {", New: "if !waits {"}},
		Tests: in("retry/retryhttp", "TestSendingIsAsMadeAtOnce"),
	},
	{
		Name:  "the caller's end ends COMMIT, once a store waits",
		Edits: []Edit{{In: "(callersValues).Done", Old: "(callersValues) Done() <-chan struct{}       { return nil }", New: "(v callersValues) Done() <-chan struct{}     { return v.Context.Done() }"}},
		Tests: in("", "TestTail"),
	},
	{
		Name:  "a caller in a hurry hurries COMMIT",
		Edits: []Edit{{In: "(callersValues).Deadline", Old: "{ return time.Time{}, false }", New: "{ return time.Now(), true }"}},
		Tests: in("", "TestTail"),
	},
}
