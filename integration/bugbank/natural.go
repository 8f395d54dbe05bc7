package bugbank

// naturalMutants are bugs of package examples/natural.
var naturalMutants = []Mutant{
	{
		Name:  "an older version overwrites a newer one",
		Edits: []Edit{{In: "natural.setPrice", Old: "where excluded.version > price.version", New: ""}},
		Tests: naturalOn("TestAnOlderVersionOverwritesNothing$/^SQLite$"),
	},
	{
		Name: "an upsert on MySQL sets the version before it has compared the amount",
		Edits: []Edit{{
			In:  "natural.setPrice",
			Old: "amount = if(values(version) > version, values(amount), amount), version = greatest(values(version), version)",
			New: "version = greatest(values(version), version), amount = if(values(version) > version, values(amount), amount)",
		}},
		Tests: naturalOn("TestAnOlderVersionOverwritesNothing$/^MariaDB$"),
	},
	{
		Name:  "an upsert on MySQL returns the state of an old snapshot",
		Edits: []Edit{{In: "natural.selectPrice", Old: "for update", New: ""}},
		Tests: naturalOn("TestAnUpsertSeesTheNewestState$/^MySQL$"),
	},
	{
		Name:  "a compare-and-set that has met another amount counts as repeated",
		Edits: []Edit{{In: "natural.ChangePrice", Old: "stored == next", New: "stored.Version == next.Version"}},
		Tests: naturalOn("TestCompareAndSet$/^SQLite$"),
	},
	{
		Name:  "a token is used again by its user, with its effect",
		Edits: []Edit{{In: "natural.UseToken", Old: "default: return err", New: "default: return errors.Join(err, effect(tx))"}},
		Tests: naturalOn("TestATokenIsUsedByOne$/^SQLite$"),
	},
	{
		Name:  "a token or a position is stored although its effect has failed",
		Edits: []Edit{{In: "natural.inTx", Old: "if err := do(tx); err != nil {", New: "if err := do(tx); err != nil {\n_ = tx.Commit()"}},
		Tests: naturalOn("TestATokenIsUsedWithItsEffect$/^SQLite$"),
	},
	{
		Name:  "an offset is applied again",
		Edits: []Edit{{In: "natural.advance", Old: "where excluded.seq > position.seq", New: "where excluded.seq >= position.seq"}},
		Tests: naturalOn("TestAnOffsetIsAppliedOnce$/^SQLite$"),
	},
	{
		Name:  "the offset 0 is never applied on MySQL",
		Edits: []Edit{{In: "natural.startMySQL", Old: "values (?, -1)", New: "values (?, 0)"}},
		Tests: naturalOn("TestAnOffsetIsAppliedOnce$/^MariaDB$"),
	},
}
