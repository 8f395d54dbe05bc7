package bugbank

// lazyMutants are bugs of package internal/base/lazy.
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
}
