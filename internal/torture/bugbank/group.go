package bugbank

// group returns a test of SQLite's group commit.
func group(test string) []Killer {
	return []Killer{{Module: "internal/torture", Package: "sqlstore", Test: test}}
}

// groupMutants are bugs of group commit.
var groupMutants = []Mutant{
	{
		Name:  "an operation is answered before the COMMIT of its group",
		Edits: []Edit{{File: "store/sqlstore/group.go", Old: "	m.leave(true)\n", New: "	m.leave(true)\n	if m.g != nil {\n		return nil\n	}\n"}},
		Tests: group("TestGroupAnswersAfterTheCommit"),
	},
	{
		Name:  "a replay is answered before the COMMIT of what it has found",
		Edits: []Edit{{File: "store/sqlstore/group.go", Old: "	if !m.ended() {\n		return &store.Error{Kind: store.Busy, Err: errStuck}\n	}\n	if m.g.err != nil {\n", New: "	if false {\n"}},
		Tests: group("TestGroupAnswersAfterTheCommit"),
	},
	{
		Name:  "deferred constraints are left to the COMMIT of the group",
		Edits: []Edit{{File: "internal/sqlguard/group.go", Old: "	case open:\n", New: "	case open && tx.txn == nil:\n"}},
		Tests: group("TestGroupConstraintsDoNotMix"),
	},
	{
		Name:  "a member that fails stays in its group",
		Edits: []Edit{{File: "internal/sqlguard/group.go", Old: "	err := c.run(ctx, undoPart)\n", New: "	var err error\n"}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "a group that a member has rolled back counts as committed",
		Edits: []Edit{{File: "store/sqlstore/group.go", Old: "		m.w.over(errGone)\n", New: "		m.w.over(nil)\n"}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "those whose COMMIT has failed meet again",
		Edits: []Edit{{File: "store/sqlstore/writer.go", Old: "		w.single(g.ids...)\n", New: ""}},
		Tests: group("TestGroupThatFailsIsAlone"),
	},
	{
		Name:  "a setting of one member is in force for the next",
		Edits: []Edit{{File: "store/sqlstore/group.go", Old: "	m.g.closed = m.g.closed || m.part.Settings()\n", New: ""}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "a member may hold the file for ever",
		Edits: []Edit{{File: "store/sqlstore/group.go", Old: "most = min(most, maxGuest)", New: "most = 24 * time.Hour"}},
		Tests: group("TestGroupHoldsNobodyForEver"),
	},
	{
		Name:  "a verdict on what was never committed is stored",
		Edits: []Edit{{File: "exec.go", Old: "		case store.Ended, store.Retry, store.Busy, store.Taken:\n			return c.committed", New: "		case store.Ended:\n			return c.committed"}},
		Tests: group("TestGroupPhantoms$/^final"),
	},
}
