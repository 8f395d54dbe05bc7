package bugbank

// rpcMutants are bugs of what oncegrpc and onceconnect have in common.
var rpcMutants = []Mutant{
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
		Tests: in("internal/rpc", "TestKey"),
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
}
