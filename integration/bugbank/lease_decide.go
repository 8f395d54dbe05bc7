package bugbank

// decideMutants break what a person's decision about an unknown outcome promises.
var decideMutants = []Mutant{
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
		Tests: onLease("TestResolve"),
	},
	{
		Name:  "another decision about the same call is told as written",
		Edits: []Edit{{In: "lease.(Resolution).compare", Old: "if s.Was[i].Sum == how.sum() {", New: `if s.Was[i].Sum != "" {`}},
		Tests: onLease("TestResolve"),
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
		Tests: onLease("TestResolve"),
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
}
