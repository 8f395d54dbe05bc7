package bugbank

// upkeepMutants are bugs of package store/upkeep.
var upkeepMutants = []Mutant{
	{
		Name:  "the age of the oldest is that of the youngest",
		Edits: []Edit{{In: "upkeep.(*Backlog).Add", Old: "max(count.Oldest, oldest)", New: "min(count.Oldest, oldest)"}},
		Tests: onSQLite("Lease$/^Backlog$"),
	},
	{
		Name:  "what waits counts as running",
		Edits: []Edit{{In: "upkeep.(*Backlog).Add", Old: "count = &b.Waiting", New: "count = &b.Running"}},
		Tests: onLease("TestStoppedWorkWaits"),
	},
}
