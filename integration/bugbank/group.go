package bugbank

// group returns a test of SQLite's group commit.
func group(test string) []Killer {
	return []Killer{{Module: "integration", Package: "sqlstore", Test: test}}
}

// groupMutants are bugs of group commit.
var groupMutants = []Mutant{
	{
		Name: "an operation is answered before the COMMIT of its group",
		Edits: []Edit{{In: "(*Member).Commit", Old: "m.leave(true)", New: `m.leave(true)
if m.group != nil {
	return nil
}`}},
		Tests: group("TestGroupAnswersAfterTheCommit"),
	},
	{
		Name: "a replay is answered before the COMMIT of what it has found",
		Edits: []Edit{{In: "(*Member).RolledBack", Old: `if !m.groupEnded() {
	return &store.Error{Kind: store.KindBusy, Err: errNotEnded}
}
if m.group.err != nil {`, New: "if false {"}},
		Tests: group("TestGroupAnswersAfterTheCommit"),
	},
	{
		Name:  "deferred constraints are left to the COMMIT of the group",
		Edits: []Edit{{In: "(*memberTx).Commit", Old: "case open:", New: "case open && p.over == nil:"}},
		Tests: group("TestGroupConstraintsDoNotMix"),
	},
	{
		Name:  "a member that fails stays in its group",
		Edits: []Edit{{In: "(*memberTx).Rollback", Old: "err := s.Run(ctx, undoMember)", New: "var err error"}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "a group that a member has rolled back counts as committed",
		Edits: []Edit{{In: "(*Member).leave", Old: "m.groups.end(errRolledBack)", New: "m.groups.end(nil)"}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "those whose COMMIT has failed meet again",
		Edits: []Edit{{In: "(*groups).end", Old: "g.runAlone(ended.ids...)", New: ""}},
		Tests: group("TestGroupThatFailsIsAlone"),
	},
	{
		Name:  "a setting of one member is in force for the next",
		Edits: []Edit{{In: "(*Member).leave", Old: "m.group.closed = m.group.closed || m.txn.pragma.Load()", New: ""}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "a member may hold the file for ever",
		Edits: []Edit{{In: "(*Member).limit", Old: "most = min(most, maxGuest)", New: "most = 24 * time.Hour"}},
		Tests: group("TestGroupHoldsNobodyForEver"),
	},
	{
		Name: "a verdict on what was never committed is stored",
		Edits: []Edit{{In: "(*call).commit", Old: `case store.KindEnded, store.KindRetry, store.KindBusy, store.KindTaken:
return c.committed`, New: `case store.KindEnded:
return c.committed`}},
		Tests: group("TestGroupPhantoms$/^final"),
	},
}
