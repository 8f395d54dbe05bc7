package bugbank

// ownerMutants are bugs of package internal/owner.
var ownerMutants = []Mutant{
	{
		Name:  "each door leads to all owners",
		Edits: []Edit{{In: "owner.Check", Old: "ctx.Value(entered{}) == p", New: "ctx.Value(entered{}) != nil"}},
		Tests: in("internal/owner", "TestListedScopesOfEachOwner"),
	},
}
